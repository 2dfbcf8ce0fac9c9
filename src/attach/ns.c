/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The namespace behind an attachment. It is checked again when libweft reports a change of the
 * subsystem or refuses a request as stale. Main thread.
 *
 * The check of the block size may race: libweft refuses every request on a handle whose namespace
 * has another block size. The check only decides how soon clients are notified.
 */
#include "attach/ns.h"

#include "base/tool_error.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

bool attach_ns_must_look(const struct attach_ns *attached)
{
	struct pollfd event = {.fd = attached->event_fd, .events = POLLIN};

	return attached->is_stale || (attached->event_fd >= 0 && poll(&event, 1, 0) == 1);
}

static void events_drain(const struct attach_ns *attached)
{
	uint64_t count;

	/* The descriptor does not block; an error only means that no event was pending. */
	if (attached->event_fd >= 0 && read(attached->event_fd, &count, sizeof(count)) < 0)
		return;
}

enum attach_news attach_ns_look(struct attach_ns *attached)
{
	struct weft_ns_info *served = &attached->handle.info;
	struct weft_ns_info now = {.size = sizeof(now)};
	bool was_stale = attached->is_stale;
	int res;

	events_drain(attached);
	attached->is_stale = false;
	res = weft_ns_info(attached->handle.ns, &now);
	if (res == -ESTALE || (res == 0 && was_stale && !now.is_gone)) {
		tool_error(attached->command, "the block size of namespace %" PRIu32 " has changed",
			   served->nsid);
		return ATTACH_CHANGED;
	}
	if (res == 0 && now.is_stale && !attached->has_told_replaced) {
		attached->has_told_replaced = true;
		tool_error(attached->command,
			   "namespace %" PRIu32 " was replaced by another namespace; run weft "
			   "attach again to use the new one",
			   served->nsid);
	}
	if (res != 0 || now.is_gone)
		return ATTACH_GONE;
	if (now.block_count < served->block_count) {
		tool_error(attached->command,
			   "namespace %" PRIu32 " has shrunk from %" PRIu64 " to %" PRIu64
			   " blocks",
			   served->nsid, served->block_count, now.block_count);
		return ATTACH_CHANGED;
	}
	if (now.block_count == served->block_count) {
		*served = now;
		return ATTACH_SAME;
	}
	*served = now;
	return ATTACH_GREW;
}

static bool is_same_ns(const struct weft_ns_info *a, const struct weft_ns_info *b)
{
	return memcmp(a->uuid, b->uuid, sizeof(a->uuid)) == 0 &&
	       memcmp(a->nguid, b->nguid, sizeof(a->nguid)) == 0;
}

int attach_ns_reopen(struct attach_ns *attached)
{
	struct ns_handle *handle = &attached->handle;
	struct weft_ns_info before = handle->info;
	struct weft_error error;
	int res;

	weft_ns_close(handle->ns);
	handle->ns = NULL;
	res = weft_ns_open(handle->subsystem, before.nsid, &handle->ns, &error);
	if (res != 0) {
		tool_error(attached->command, "%s", error.text);
		return res;
	}
	res = weft_ns_info(handle->ns, &handle->info);
	if (res == 0 && !is_same_ns(&before, &handle->info))
		res = -ESTALE;
	if (res == -ESTALE)
		tool_error(attached->command,
			   "namespace %" PRIu32 " was replaced by another namespace; run weft "
			   "attach again to use the new one",
			   before.nsid);
	else if (res != 0)
		tool_error(attached->command, "cannot query namespace %" PRIu32 ": %s", before.nsid,
			   strerror(-res));
	return res;
}
