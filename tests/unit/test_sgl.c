/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The SGL of a command capsule: every descriptor that a host may send, with its status.
 * NVMe Base 2.1, section 4.3.2; NVMe/TCP 1.1, section 3.4. One thread.
 */
#include "base/check.h"
#include "tap.h"
#include "wire/sgl.h"

struct row {
	const char *name;
	uint8_t flags, type;
	uint64_t addr;
	uint32_t length, capsule_bytes;
	uint16_t status; /* without DNR, which every failure has */
	enum sgl_kind kind;
};

/* clang-format off */
static const struct row rows[] = {
	{"no data as Linux says it", 0x40, 0x5a, 0, 0, 0, 0, SGL_NONE},
	{"no data, all zero", 0x40, 0x00, 0, 0, 0, 0, SGL_NONE},
	{"no data, in capsule", 0x40, 0x01, 0, 0, 0, 0, SGL_NONE},
	{"transport", 0x40, 0x5a, 0, 4096, 0, 0, SGL_TRANSPORT},
	{"transport, largest", 0x40, 0x5a, 0, UINT32_MAX, 0, 0, SGL_TRANSPORT},
	{"fused command", 0x41, 0x5a, 0, 4096, 0, 0, SGL_TRANSPORT},
	{"in capsule", 0x40, 0x01, 0, 4096, 4096, 0, SGL_IN_CAPSULE},
	{"in capsule at an offset", 0x40, 0x01, 512, 3584, 4096, 0, SGL_IN_CAPSULE},
	{"in capsule, one too many", 0x40, 0x01, 0, 4097, 4096, 0x0f, SGL_NONE},
	{"in capsule, beyond by offset", 0x40, 0x01, 512, 4096, 4096, 0x0f, SGL_NONE},
	{"in capsule without data", 0x40, 0x01, 0, 512, 0, 0x0f, SGL_NONE},
	{"in capsule at the end", 0x40, 0x01, 4096, 4, 4096, 0x0f, SGL_NONE},
	{"in capsule after the end", 0x40, 0x01, 4097, 4, 4096, 0x16, SGL_NONE},
	{"in capsule, offset wraps", 0x40, 0x01, UINT64_MAX - 3, 4, 4096, 0x16, SGL_NONE},
	{"in capsule, length wraps", 0x40, 0x01, 16, UINT32_MAX, 4096, 0x0f, SGL_NONE},
	{"PRP", 0x00, 0x5a, 0, 4096, 0, 0x02, SGL_NONE},
	{"PSDT 10b", 0x80, 0x5a, 0, 4096, 0, 0x02, SGL_NONE},
	{"PSDT 11b", 0xc0, 0x5a, 0, 4096, 0, 0x02, SGL_NONE},
	{"data block by address", 0x40, 0x00, 0x1000, 4096, 0, 0x11, SGL_NONE},
	{"bit bucket", 0x40, 0x10, 0, 4096, 0, 0x11, SGL_NONE},
	{"segment", 0x40, 0x20, 0, 32, 32, 0x0d, SGL_NONE},
	{"last segment in capsule", 0x40, 0x31, 0, 32, 32, 0x0d, SGL_NONE},
	{"keyed", 0x40, 0x40, 0, 4096, 0, 0x11, SGL_NONE},
	{"transport, wrong sub type", 0x40, 0x50, 0, 4096, 0, 0x11, SGL_NONE},
	{"vendor specific", 0x40, 0xf0, 0, 4096, 0, 0x11, SGL_NONE},
};
/* clang-format on */

static void every_descriptor_has_its_status(void)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct row *row = &rows[i];
		uint16_t want = row->status != 0 ? row->status | NVME_STATUS_DNR : 0;
		struct nvme_sqe sqe = {.flags = row->flags};
		struct sgl sgl;
		nvme_status status;

		sqe.sgl.addr = le64_of(row->addr);
		sqe.sgl.length = le32_of(row->length);
		sqe.sgl.type = row->type;
		status = sgl_decode(&sqe, row->capsule_bytes, &sgl);
		if (status.value != want || sgl.kind != row->kind) {
			printf("# row \"%s\": status 0x%x kind %d\n", row->name, status.value,
			       sgl.kind);
			tap_case_failed = true;
		}
		if (sgl.kind != SGL_NONE)
			EXPECT_EQ(row->length, sgl.len_bytes);
		if (sgl.kind == SGL_IN_CAPSULE)
			EXPECT_EQ(row->addr, sgl.offset_bytes);
	}
}

static void encoders_have_the_bytes_of_the_specification(void)
{
	struct nvme_sqe sqe = {.flags = 0x82};
	uint8_t raw[64];

	memset(&sqe.sgl, 0xee, sizeof(sqe.sgl));
	sgl_encode_transport(&sqe, 0x01020304);
	memcpy(raw, &sqe, sizeof(raw));
	EXPECT_EQ(0x42, raw[1]); /* FUSE is unchanged */
	EXPECT_EQ(0, raw[24]);
	EXPECT_EQ(0x04, raw[32]);
	EXPECT_EQ(0x01, raw[35]);
	EXPECT_EQ(0, raw[36] | raw[37] | raw[38]);
	EXPECT_EQ(0x5a, raw[39]);
	sgl_encode_in_capsule(&sqe, 512);
	EXPECT_EQ(0x01, sqe.sgl.type);
	EXPECT_EQ(512, le32_get(sqe.sgl.length));
	sgl_encode_none(&sqe);
	EXPECT_EQ(0x5a, sqe.sgl.type);
	EXPECT_EQ(0, le32_get(sqe.sgl.length));
}

int main(void)
{
	TAP_RUN(every_descriptor_has_its_status);
	TAP_RUN(encoders_have_the_bytes_of_the_specification);
	return tap_end();
}
