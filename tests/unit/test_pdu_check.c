/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data PDUs against their transfer: one row per violation, with the error sent to the peer.
 * NVMe/TCP 1.1, sections 3.3.2 and 3.6.2. One thread.
 */
#include "base/check.h"
#include "tap.h"
#include "wire/pdu.h"

enum which {
	H2C,
	C2H,
	R2T,
};

struct row {
	const char *name;
	enum which which;
	uint16_t cccid;
	uint32_t offset, length;
	bool is_last;
	uint16_t fes;
	uint32_t fei;
};

/* The transfer of every row: command 5, bytes from 4096 up to 8190 are still to come. */
static const struct pdu_transfer open_transfer = {true, 5, 4096, 8190};

/* clang-format off */
static const struct row rows[] = {
	{"H2C middle", H2C, 5, 4096, 2048, false, 0, 0},
	{"H2C whole", H2C, 5, 4096, 4094, true, 0, 0},
	{"H2C other command", H2C, 6, 4096, 4094, true, 1, 8},
	{"H2C gap", H2C, 5, 4100, 4, false, 4, 12},
	{"H2C again", H2C, 5, 0, 4096, false, 4, 12},
	{"H2C beyond the end", H2C, 5, 4096, 4096, true, 4, 16},
	{"H2C wraps around", H2C, 5, 4096, 0xfffffffc, true, 4, 16},
	{"H2C not in dwords", H2C, 5, 4096, 2046, false, 1, 16},
	{"H2C last too early", H2C, 5, 4096, 2048, true, 1, 1},
	{"H2C end not marked", H2C, 5, 4096, 4094, false, 1, 1},
	{"C2H middle", C2H, 5, 4096, 512, false, 0, 0},
	{"C2H whole", C2H, 5, 4096, 4094, true, 0, 0},
	{"C2H other command", C2H, 4, 4096, 4094, true, 1, 8},
	{"C2H gap", C2H, 5, 8188, 2, true, 4, 12},
	{"C2H beyond the end", C2H, 5, 4096, 4098, true, 4, 16},
	{"C2H not in dwords", C2H, 5, 4096, 1, false, 1, 16},
	{"C2H last too early", C2H, 5, 4096, 512, true, 1, 1},
	{"C2H end not marked", C2H, 5, 4096, 4094, false, 1, 1},
	{"R2T part", R2T, 5, 4096, 1024, false, 0, 0},
	{"R2T all", R2T, 5, 4096, 4094, false, 0, 0},
	{"R2T other command", R2T, 1, 4096, 4094, false, 1, 8},
	{"R2T out of order", R2T, 5, 5120, 1024, false, 4, 12},
	{"R2T beyond the end", R2T, 5, 4096, 4095, false, 4, 16},
	{"R2T not in dwords", R2T, 5, 4096, 1023, false, 1, 16},
};
/* clang-format on */

static struct pdu pdu_of(const struct row *row)
{
	static const enum nvme_tcp_pdu_type types[] = {NVME_TCP_PDU_H2C_DATA, NVME_TCP_PDU_C2H_DATA,
						       NVME_TCP_PDU_R2T};

	return (struct pdu){
		.type = types[row->which],
		.is_last = row->is_last,
		.data_bytes = row->which == R2T ? 0 : row->length,
		.u.data = {row->cccid, 9, row->offset, row->length},
	};
}

static struct pdu_error check(enum which which, const struct pdu *pdu,
			      const struct pdu_transfer *transfer)
{
	if (which == H2C)
		return pdu_check_h2c_data(pdu, transfer);
	if (which == C2H)
		return pdu_check_c2h_data(pdu, transfer);
	return pdu_check_r2t(pdu, transfer, 0, 1);
}

static void every_violation_has_its_error(void)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct pdu pdu = pdu_of(&rows[i]);
		struct pdu_error error = check(rows[i].which, &pdu, &open_transfer);

		if (error.fes != rows[i].fes || error.fei != rows[i].fei) {
			printf("# row \"%s\": fes %u fei %u (%s)\n", rows[i].name, error.fes,
			       error.fei, error.what ? error.what : "-");
			tap_case_failed = true;
		}
	}
}

static void unknown_and_closed_transfers_are_refused(void)
{
	const uint32_t fei[] = {10, 8, 8};
	struct pdu_transfer closed = open_transfer;

	closed.is_open = false;
	for (int which = H2C; which <= R2T; which++) {
		struct row row = {"", (enum which)which, 5, 4096, 4094, true, 0, 0};
		struct pdu pdu = pdu_of(&row);

		EXPECT_EQ(1, check((enum which)which, &pdu, NULL).fes);
		EXPECT_EQ(fei[which], check((enum which)which, &pdu, NULL).fei);
		EXPECT_EQ(1, check((enum which)which, &pdu, &closed).fes);
		EXPECT_EQ(fei[which], check((enum which)which, &pdu, &closed).fei);
	}
}

static void r2ts_are_limited(void)
{
	struct row row = {"", R2T, 5, 4096, 1024, false, 0, 0};
	struct pdu pdu = pdu_of(&row);

	EXPECT_EQ(0, pdu_check_r2t(&pdu, &open_transfer, 3, 4).fes);
	EXPECT_EQ(NVME_TCP_FES_R2T_LIMIT_EXCEEDED, pdu_check_r2t(&pdu, &open_transfer, 4, 4).fes);
	EXPECT_EQ(NVME_TCP_FES_R2T_LIMIT_EXCEEDED, pdu_check_r2t(&pdu, &open_transfer, 5, 4).fes);
}

int main(void)
{
	TAP_RUN(every_violation_has_its_error);
	TAP_RUN(unknown_and_closed_transfers_are_refused);
	TAP_RUN(r2ts_are_limited);
	return tap_end();
}
