/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the decoders of reservations, Copy, namespace management, the persistent event log and
 * Cross-Controller Reset, commands and data. Checked: a decoded value survives encoding and
 * decoding. Input: a byte that chooses the decoder, a command of 64 bytes, its data. Pure; one
 * thread.
 */
#include "base/check.h"
#include "wire/copy.h"
#include "wire/ctrl_reset.h"
#include "wire/feature.h"
#include "wire/io_cmd.h"
#include "wire/ns_manage.h"
#include "wire/persistent_event.h"
#include "wire/reservation.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes);

struct input {
	struct nvme_sqe sqe;
	uint8_t data[NVME_PAGE_BYTES]; /* zeroes after the input */
};

static bool is_same(const void *a, const void *b, size_t len_bytes)
{
	return memcmp(a, b, len_bytes) == 0;
}

static void try_reservation(struct input *in)
{
	struct nvme_sqe sqe = {0};
	uint8_t data[REGISTER_DATA_BYTES] = {0};

	struct register_cmd reg, reg_again;
	struct acquire_cmd acquire, acquire_again;
	struct release_cmd release, release_again;
	struct report_cmd report, report_again;

	register_cmd_decode(&in->sqe, in->data, &reg);
	register_cmd_encode(&sqe, 1, &reg, data);
	register_cmd_decode(&sqe, data, &reg_again);
	CHECK(reg.action == reg_again.action && reg.ignores_key == reg_again.ignores_key &&
	      reg.persist == reg_again.persist && reg.current_key == reg_again.current_key &&
	      reg.new_key == reg_again.new_key);
	acquire_cmd_decode(&in->sqe, in->data, &acquire);
	acquire_cmd_encode(&sqe, 1, &acquire, data);
	acquire_cmd_decode(&sqe, data, &acquire_again);
	CHECK(acquire.action == acquire_again.action && acquire.type == acquire_again.type &&
	      acquire.ignores_key == acquire_again.ignores_key &&
	      acquire.current_key == acquire_again.current_key &&
	      acquire.preempt_key == acquire_again.preempt_key);
	release_cmd_decode(&in->sqe, in->data, &release);
	release_cmd_encode(&sqe, 1, &release, data);
	release_cmd_decode(&sqe, data, &release_again);
	CHECK(release.action == release_again.action && release.type == release_again.type &&
	      release.current_key == release_again.current_key);
	report_cmd_decode(&in->sqe, &report);
	CHECK(report.len_bytes >= 4 && report.len_bytes % 4 == 0 && report.len_bytes <= 4ull << 32);
	report_cmd_encode(&sqe, 1, &report);
	report_cmd_decode(&sqe, &report_again);
	CHECK(report.len_bytes == report_again.len_bytes &&
	      report.is_extended == report_again.is_extended);
}

static void try_report(struct input *in)
{
	uint8_t bytes[REPORT_ENTRY_EXTENDED_BYTES] = {0};
	struct report_header header, header_again;
	struct report_entry entry, entry_again;
	struct log_reservation log, log_again;

	report_header_decode(in->data, &header);
	report_header_encode(&header, bytes);
	report_header_decode(bytes, &header_again);
	CHECK(header.generation == header_again.generation && header.type == header_again.type &&
	      header.entry_count == header_again.entry_count &&
	      header.persists == header_again.persists);
	for (unsigned is_extended = 0; is_extended < 2; is_extended++) {
		report_entry_decode(in->data, is_extended, &entry);
		report_entry_encode(&entry, is_extended, bytes);
		report_entry_decode(bytes, is_extended, &entry_again);
		CHECK(entry.cntlid == entry_again.cntlid && entry.key == entry_again.key &&
		      entry.is_holder == entry_again.is_holder &&
		      uuid_equal(&entry.host_id, &entry_again.host_id));
	}
	log_reservation_decode(in->data, &log);
	log_reservation_encode(&log, bytes);
	log_reservation_decode(bytes, &log_again);
	CHECK(log.count == log_again.count && log.type == log_again.type &&
	      log.available == log_again.available && log.nsid == log_again.nsid);
}

static void try_copy(struct input *in)
{
	uint8_t bytes[NVME_COPY_RANGE_BYTES] = {0};
	struct copy_cmd cmd, cmd_again;
	struct copy_range range, range_again;
	struct nvme_sqe sqe = {0};
	struct cancel_cmd cancel;
	struct io_cmd io;

	copy_cmd_decode(&in->sqe, &cmd);
	CHECK(cmd.range_count >= 1 && cmd.range_count <= NVME_COPY_RANGES_MAX);
	copy_cmd_encode(&sqe, 1, &cmd);
	copy_cmd_decode(&sqe, &cmd_again);
	CHECK(cmd.first_block == cmd_again.first_block && cmd.format == cmd_again.format &&
	      cmd.range_count == cmd_again.range_count && cmd.is_fua == cmd_again.is_fua);
	for (uint32_t i = 0; i < NVME_PAGE_BYTES / NVME_COPY_RANGE_BYTES; i++) {
		range = copy_range_decode(in->data, i, cmd.format);
		CHECK(range.block_count >= 1 && range.block_count <= 65536);
		copy_range_encode(bytes, 0, cmd.format, &range);
		range_again = copy_range_decode(bytes, 0, cmd.format);
		CHECK(range.first_block == range_again.first_block &&
		      range.block_count == range_again.block_count);
	}
	cancel_cmd_decode(&in->sqe, &cancel);
	io_cmd_decode(&in->sqe, &io);
	CHECK(io.block_count >= 1 && io.block_count <= 65536);
	for (uint32_t i = 0; i < NVME_PAGE_BYTES / NVME_DSM_RANGE_BYTES; i++)
		(void)dsm_range_decode(in->data, i);
}

static void try_manage(struct input *in)
{
	static uint16_t ids[CTRL_LIST_MAX], ids_again[CTRL_LIST_MAX];
	static uint8_t page[NVME_PAGE_BYTES];
	struct ns_manage_cmd manage;
	struct ns_create create, again;
	struct format_cmd format, format_again;
	struct nvme_sqe sqe = {0};
	int count;

	ns_manage_cmd_decode(&in->sqe, &manage);
	ns_create_decode(in->data, &create);
	ns_create_encode(&create, page);
	ns_create_decode(page, &again);
	CHECK(create.block_count == again.block_count && create.capacity == again.capacity &&
	      create.format == again.format && create.sharing == again.sharing &&
	      create.ana_group == again.ana_group);
	count = ctrl_list_decode(in->data, ids);
	CHECK(count >= -1 && count <= CTRL_LIST_MAX);
	if (count >= 0) {
		ctrl_list_encode(ids, (unsigned)count, page);
		CHECK(ctrl_list_decode(page, ids_again) == count);
		CHECK(is_same(ids, ids_again, (size_t)count * sizeof(ids[0])));
	}
	format_cmd_decode(&in->sqe, &format);
	format_cmd_encode(&sqe, &format);
	format_cmd_decode(&sqe, &format_again);
	CHECK(format.format == format_again.format && format.erase == format_again.erase &&
	      format.protection == format_again.protection);
}

static void try_events(struct input *in)
{
	uint8_t bytes[EVENT_LOG_HEADER_BYTES] = {0};
	struct event_log_header header, header_again;
	struct event_header event, event_again;
	struct timestamp stamp, stamp_again;
	uint32_t sq_count, cq_count;
	struct feature_cmd feature;

	if (event_log_header_decode(in->data, &header) == 0) {
		event_log_header_encode(&header, bytes);
		CHECK(event_log_header_decode(bytes, &header_again) == 0);
		CHECK(header.event_count == header_again.event_count &&
		      header.total_bytes == header_again.total_bytes &&
		      strcmp(header.subsystem_nqn, header_again.subsystem_nqn) == 0);
	}
	if (event_header_decode(in->data, &event) == 0) {
		event_header_encode(&event, bytes);
		CHECK(event_header_decode(bytes, &event_again) == 0);
		CHECK(event.type == event_again.type && event.data_bytes == event_again.data_bytes);
	}
	timestamp_decode(in->data, &stamp);
	timestamp_encode(&stamp, bytes);
	timestamp_decode(bytes, &stamp_again);
	CHECK(stamp.ms == stamp_again.ms && stamp.is_set == stamp_again.is_set);
	feature_cmd_decode(&in->sqe, &feature);
	(void)feature_temperature_decode(feature.cdw11);
	if (nvme_status_is_ok(feature_queue_count_decode(feature.cdw11, &sq_count, &cq_count)))
		CHECK(feature_queue_count_encode(sq_count, cq_count) == feature.cdw11);
}

/* Cross-Controller Reset, and its logs as a controller of another vendor may write them. */
static void try_ctrl_reset(struct input *in)
{
	struct nvme_sqe sqe = {0};
	struct ctrl_reset_cmd cmd, cmd_again;
	size_t page_bytes = le32_get(in->sqe.cdw15) % (sizeof(in->data) + 1);
	uint32_t count = log_ctrl_reset_count(in->data, page_bytes);

	ctrl_reset_cmd_decode(&in->sqe, &cmd);
	ctrl_reset_cmd_encode(&sqe, &cmd);
	ctrl_reset_cmd_decode(&sqe, &cmd_again);
	CHECK(cmd.cntlid == cmd_again.cntlid && cmd.uniquifier == cmd_again.uniquifier &&
	      cmd.random_number == cmd_again.random_number);
	CHECK(count <= LOG_CTRL_RESET_MAX &&
	      (count == 0 ||
	       LOG_CTRL_RESET_HEADER_BYTES + (size_t)count * LOG_CTRL_RESET_ENTRY_BYTES <=
		       page_bytes));
	for (uint32_t i = 0; i < count; i++) {
		uint8_t page[LOG_CTRL_RESET_HEADER_BYTES + LOG_CTRL_RESET_ENTRY_BYTES];
		struct log_ctrl_reset_entry entry, entry_again;
		struct log_lost_host_entry lost, lost_again;

		log_ctrl_reset_entry_decode(in->data, i, &entry);
		log_ctrl_reset_entry_encode(&entry, page + LOG_CTRL_RESET_HEADER_BYTES);
		log_ctrl_reset_entry_decode(page, 0, &entry_again);
		CHECK(entry.cntlid == entry_again.cntlid && entry.state == entry_again.state &&
		      entry.uniquifier == entry_again.uniquifier &&
		      entry.asked_cntlid == entry_again.asked_cntlid);
		log_lost_host_entry_decode(in->data, i, &lost);
		log_lost_host_entry_encode(&lost, page + LOG_CTRL_RESET_HEADER_BYTES);
		log_lost_host_entry_decode(page, 0, &lost_again);
		CHECK(lost.cntlid == lost_again.cntlid && lost.uniquifier == lost_again.uniquifier);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes)
{
	static void (*const tries[])(struct input * in) = {
		try_reservation, try_report, try_copy, try_manage, try_events, try_ctrl_reset};
	static struct input in;
	size_t data_bytes;

	if (len_bytes < 1 + sizeof(in.sqe))
		return 0;
	memset(&in, 0, sizeof(in));
	memcpy(&in.sqe, bytes + 1, sizeof(in.sqe));
	data_bytes = len_bytes - 1 - sizeof(in.sqe);
	if (data_bytes > sizeof(in.data))
		data_bytes = sizeof(in.data);
	memcpy(in.data, bytes + 1 + sizeof(in.sqe), data_bytes);
	tries[bytes[0] % (sizeof(tries) / sizeof(tries[0]))](&in);
	return 0;
}
