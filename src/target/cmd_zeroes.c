/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Write Zeroes, with or without deallocation (DEAC). NVM Command Set 1.1, section 3.3.8. Runs on
 * the queue's reactor.
 *
 * WZSL limits the range (TARGET_WRITE_ZEROES_MAX_BYTES), because memory is set inside one callback.
 * The medium decides what DEAC does. The range reads as zeroes in either case.
 */
#include "target/io.h"

static void write_zeroes_execute(struct slot *slot)
{
	io_counter_add(&io_counters(slot)->write_commands, 1);
	io_submit(slot, slot->ns, MEDIA_WRITE_ZEROES, 0, io_done);
}

nvme_status write_zeroes_prepare(struct slot *slot)
{
	nvme_status status = io_check_range(slot);

	if (nvme_status_is_ok(status))
		status = io_check_directive(slot);
	if (!nvme_status_is_ok(status))
		return status;
	if (io_range_bytes(slot) > TARGET_WRITE_ZEROES_MAX_BYTES) {
		slot->error_byte = offsetof(struct nvme_sqe, cdw12);
		return nvme_status_dnr(NVME_SC_INVALID_FIELD);
	}
	slot->execute = write_zeroes_execute;
	return command_expect_data(slot, DATA_NONE, 0);
}
