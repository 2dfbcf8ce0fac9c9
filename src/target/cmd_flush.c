/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flush. NVMe Base 2.1, section 7.2. Runs on the queue's reactor.
 */
#include "target/io.h"

static void flush_execute(struct slot *slot)
{
	if (slot->ns->media->has_volatile_cache)
		io_submit(slot, MEDIA_FLUSH, io_done);
	else
		slot_complete(slot, NVME_SC_SUCCESS);
}

nvme_status flush_prepare(struct slot *slot)
{
	slot->execute = flush_execute;
	return command_expect_data(slot, DATA_NONE, 0);
}
