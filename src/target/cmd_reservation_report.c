/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reservation Report. NVMe Base 2.1, section 7.9.
 *
 * The slot travels to the control reactor, which owns the reservation and writes the report, and
 * back (target/control_work.h). The report has one entry per registrant, which is a host. The
 * host's controllers are dynamic, so the entry names controller FFFFh, however many controllers the
 * host has.
 */
#include "ns/reservation.h"
#include "target/command.h"
#include "target/local.h"
#include "target/log.h"
#include "target/reservation_command.h"

/* A report that is being written, piece by piece. */
struct report {
	struct log_window window;
	bool is_extended;
	uint64_t at;
	uint32_t entry_count;
};

static void report_add(struct report *report, const struct reservation *reservation, uint32_t place)
{
	const struct registrant *registrant = &reservation->registrants[place];
	uint32_t bytes = report->is_extended ? REPORT_ENTRY_EXTENDED_BYTES : REPORT_ENTRY_BYTES;
	uint8_t piece[REPORT_ENTRY_EXTENDED_BYTES];
	struct report_entry entry = {
		.cntlid = NVME_CNTLID_ANY,
		.is_holder = reservation_is_holder(reservation, registrant),
		.host_id = registrant->host_id,
		.key = registrant->key,
	};

	if (report->entry_count == REPORT_ENTRIES_MAX)
		return;
	report_entry_encode(&entry, report->is_extended, piece);
	log_window_put(&report->window, report->at, piece, bytes);
	report->at += bytes;
	report->entry_count++;
}

/* On the control reactor. */
static void report_write(struct slot *slot)
{
	const struct reservation *reservation =
		ns_live_reservation(ns_backing_live(slot->ns->backing));
	struct report_header header = {0};
	uint8_t piece[REPORT_HEADER_BYTES];
	struct report_cmd cmd;
	struct report report;

	memset(slot->data.addr, 0, slot->data_bytes);
	report_cmd_decode(&slot->sqe, &cmd);
	report = (struct report){
		.window = {slot->data.addr, 0, slot->data_bytes},
		.is_extended = cmd.is_extended,
		.at = cmd.is_extended ? REPORT_HEADER_EXTENDED_BYTES : REPORT_HEADER_BYTES,
	};
	if (!reservation)
		return;
	for (uint32_t place = 0; place < reservation->count; place++)
		report_add(&report, reservation, place);
	header.generation = reservation->generation;
	header.type = (uint8_t)reservation->type;
	header.entry_count = (uint16_t)report.entry_count;
	header.persists = reservation->persists;
	report_header_encode(&header, piece);
	log_window_put(&report.window, 0, piece, sizeof(piece));
}

/* ---- to the control reactor and back -------------------------------------------------------- */

static void report_home(struct slot *slot)
{
	slot_complete(slot, slot->status);
}

static void report_serve(struct slot *slot)
{
	report_write(slot);
	control_work_answer(slot, NVME_SC_SUCCESS);
}

static void report_execute(struct slot *slot)
{
	static const struct control_read read = {.serve = report_serve, .home = report_home};

	control_work_read(slot, &read);
}

nvme_status reservation_report_prepare(struct slot *slot)
{
	struct report_cmd cmd;

	report_cmd_decode(&slot->sqe, &cmd);
	/* Over fabrics a host identifier has 128 bits, which the short layout cannot hold. */
	if (!cmd.is_extended)
		return command_refuse(slot, NVME_SC_HOST_ID_INCONSISTENT, SQE_BYTE_CDW11);
	if (cmd.len_bytes > slot->snapshot->limits.transfer_max_bytes)
		return command_refuse(slot, NVME_SC_INVALID_FIELD, SQE_BYTE_CDW10);
	slot->execute = report_execute;
	return command_expect_data(slot, DATA_TO_HOST, (uint32_t)cmd.len_bytes);
}
