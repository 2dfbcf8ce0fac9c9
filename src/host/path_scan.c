/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the namespaces of one path: the list (CNS 02h), then of each its page (00h) and its
 * identifiers (03h), one command at a time. Runs on the mpath's reactor. NVMe Base 2.1, section
 * 5.1.13; changed namespaces (log 04h), section 5.1.12.1.5.
 *
 * The first scan of a connection reads everything and is followed by the ANA log; a notice reads
 * the list of changes first and then only what changed or is new. What a namespace says that makes
 * no sense costs that namespace; a list that makes no sense costs the path.
 */
#include "host/mpath_internal.h"

#include "base/clock.h"
#include "base/log.h"

#include <errno.h>
#include <string.h>

static void scan_next(struct path *path);
static void on_scan_done(struct host_cmd *cmd);

static void scan_submit(struct path *path, enum scan_step step)
{
	path->scan.step = step;
	path->scan.cmd.done = on_scan_done;
	host_submit_admin(path->ctrl, &path->scan.cmd);
}

static void scan_list(struct path *path, uint32_t above_nsid)
{
	host_cmd_identify(&path->scan.cmd, above_nsid, IDENTIFY_NS_LIST, path->scan.page);
	scan_submit(path, SCAN_LIST);
}

static void scan_begin(struct path *path)
{
	path->scan.number++;
	path->scan.ns_seen = 0;
	path->scan.count = 0;
	path->scan.index = 0;
	scan_list(path, 0);
}

/* What changed is not told: then each is looked at. */
static void scan_everything(struct path *path)
{
	path->scan.is_all = true;
	scan_begin(path);
}

static void scan_end(struct path *path)
{
	struct path_scan *scan = &path->scan;

	scan->step = SCAN_IDLE;
	ns_sweep(path, scan->number);
	/* A namespace that is new may be in a group that is new. */
	path_ana_read(path);
	if (scan->is_again && path->ctrl != NULL && !path->is_leaving)
		path_scan_start(path, false);
}

/* ---- what the answers say -------------------------------------------------------------------- */

static bool list_take(struct path *path)
{
	struct path_scan *scan = &path->scan;
	uint32_t last = scan->count > 0 ? scan->nsids[scan->count - 1] : 0;
	uint32_t count = identify_ns_list_decode(scan->page, scan->nsids);

	for (uint32_t i = 0; i < count; i++) {
		if (scan->nsids[i] <= last || scan->nsids[i] == NVME_NSID_ALL)
			return false;
		last = scan->nsids[i];
	}
	scan->count = count;
	scan->index = 0;
	scan->ns_seen += count;
	return scan->ns_seen <= MPATH_NS_MAX;
}

static void changed_take(struct path *path)
{
	struct path_scan *scan = &path->scan;

	/* The page has the shape of a list of namespaces. */
	scan->changed_count = identify_ns_list_decode(scan->page, scan->changed);
	/* More than fit: any may have changed. */
	if (scan->changed_count > 0 && scan->changed[0] == NVME_NSID_ALL)
		scan->is_all = true;
}

static bool is_changed(const struct path *path, uint32_t nsid)
{
	const struct mpath_ns *ns = mpath_ns_find(path->mpath, nsid);

	if (path->scan.is_all || ns == NULL || ns->is_gone || !ns->on[path->slot].is_there)
		return true;
	for (uint32_t i = 0; i < path->scan.changed_count; i++) {
		if (path->scan.changed[i] == nsid)
			return true;
	}
	return false;
}

static void ns_skip(struct path *path, const char *why)
{
	struct path_scan *scan = &path->scan;

	log_warn("host", "%s: path %s: namespace %u is left out: %s",
		 path->mpath->config.subsystem_nqn, path->name, scan->nsids[scan->index], why);
	scan->index++;
	scan_next(path);
}

static void ns_take(struct path *path)
{
	struct path_scan *scan = &path->scan;
	uint32_t nsid = scan->nsids[scan->index];
	int res = identify_ns_descriptors_decode(scan->page, &scan->identity);

	if (res != 0) {
		ns_skip(path, res == -EOPNOTSUPP ? "it is of another command set"
						 : "its descriptors make no sense");
		return;
	}
	res = ns_seen(path, nsid, &scan->identity, scan->number);
	if (res == -ENOMEM) {
		path_fail(path, "out of memory for namespace %u", nsid);
		return;
	}
	scan->index++;
	scan_next(path);
}

/* The controller would not tell about one namespace. */
static void ns_refused(struct path *path, nvme_status status)
{
	struct path_scan *scan = &path->scan;
	uint32_t nsid = scan->nsids[scan->index];

	/* Removed since the list was read; what is left of it is swept away. */
	if (nvme_status_same(status, NVME_SC_INVALID_NS)) {
		scan->index++;
		scan_next(path);
	} else if (status.value >> 8 == 3) {
		ns_still_there(path, nsid, scan->number);
		scan->index++;
		scan_next(path);
	} else {
		ns_skip(path, nvme_status_name(status));
	}
}

static void on_answer(struct path *path)
{
	struct path_scan *scan = &path->scan;
	int res;

	switch (scan->step) {
	case SCAN_BEHAVIOR:
		scan_begin(path);
		break;
	case SCAN_CHANGED:
		changed_take(path);
		scan_begin(path);
		break;
	case SCAN_LIST:
		if (list_take(path))
			scan_next(path);
		else
			path_fail(path, "the list of namespaces makes no sense");
		break;
	case SCAN_NS:
		memset(&scan->identity, 0, sizeof(scan->identity));
		res = identify_ns_decode(scan->page, &scan->identity);
		if (res != 0) {
			ns_skip(path, res == -EOPNOTSUPP ? "its blocks have metadata"
							 : "its identity makes no sense");
			break;
		}
		host_cmd_identify(&scan->cmd, scan->nsids[scan->index], IDENTIFY_NS_DESCRIPTORS,
				  scan->page);
		scan_submit(path, SCAN_DESCRIPTORS);
		break;
	case SCAN_DESCRIPTORS:
		ns_take(path);
		break;
	case SCAN_IDLE:
		break;
	}
}

static void on_scan_done(struct host_cmd *cmd)
{
	struct path *path = container_of(cmd, struct path, scan.cmd);
	enum scan_step step = path->scan.step;

	if (step == SCAN_IDLE || path->ctrl == NULL || !host_ctrl_is_live(path->ctrl)) {
		path->scan.step = SCAN_IDLE;
		return;
	}
	if (nvme_status_is_ok(cmd->status))
		on_answer(path);
	else if (step == SCAN_BEHAVIOR)
		scan_begin(path); /* then without delays */
	else if (step == SCAN_NS || step == SCAN_DESCRIPTORS)
		ns_refused(path, cmd->status);
	else if (step == SCAN_CHANGED)
		scan_everything(path);
	else
		path_fail(path, "Identify (namespace list) failed: %s (status 0x%03x)",
			  nvme_status_name(cmd->status), cmd->status.value & 0x7ff);
}

/* ---- what to ask ------------------------------------------------------------------------------
 */

static void scan_next(struct path *path)
{
	struct path_scan *scan = &path->scan;

	while (scan->index < scan->count) {
		uint32_t nsid = scan->nsids[scan->index];

		if (is_changed(path, nsid)) {
			host_cmd_identify(&scan->cmd, nsid, IDENTIFY_NS, scan->page);
			scan_submit(path, SCAN_NS);
			return;
		}
		ns_still_there(path, nsid, scan->number);
		scan->index++;
	}
	if (scan->count == ARRAY_LEN(scan->nsids))
		scan_list(path, scan->nsids[scan->count - 1]);
	else
		scan_end(path);
}

static bool has_retry_delays(const struct ctrl_identity *identity)
{
	return identity->retry_delays_ms[0] > 0 || identity->retry_delays_ms[1] > 0 ||
	       identity->retry_delays_ms[2] > 0;
}

void path_scan_start(struct path *path, bool is_all)
{
	struct path_scan *scan = &path->scan;

	if (scan->step != SCAN_IDLE) {
		scan->is_again = true;
		return;
	}
	scan->is_all = is_all;
	scan->is_again = false;
	scan->changed_count = 0;
	if (!is_all) {
		host_cmd_log(&scan->cmd, NVME_NSID_ALL, LOG_CHANGED_NS, 0, scan->page,
			     LOG_CHANGED_NS_BYTES);
		scan_submit(path, SCAN_CHANGED);
	} else if (has_retry_delays(&path->identity)) {
		memset(&scan->cmd, 0, sizeof(scan->cmd));
		memset(scan->page, 0, HOST_BEHAVIOR_BYTES);
		scan->page[HOST_BEHAVIOR_ACRE] = 1;
		feature_set_encode(&scan->cmd.sqe, FEATURE_HOST_BEHAVIOR, 0);
		scan->cmd.direction = HOST_DATA_TO_CTRL;
		scan->cmd.data = scan->page;
		scan->cmd.data_bytes = HOST_BEHAVIOR_BYTES;
		scan_submit(path, SCAN_BEHAVIOR);
	} else {
		scan_begin(path);
	}
}

static void on_again_timer(struct reactor_timer *timer)
{
	struct path *path = container_of(timer, struct path, scan.again_timer);

	if (path->is_usable)
		path_scan_start(path, true);
}

void path_scan_later(struct path *path)
{
	if (!path->scan.again_timer.armed)
		reactor_timer_arm(&path->scan.again_timer, reactor_now_ns(path->mpath->reactor) +
								   PATH_REREAD_MS * NS_PER_MS);
}

void path_scan_init(struct path *path)
{
	reactor_timer_init(path->mpath->reactor, &path->scan.again_timer, on_again_timer);
}

/* A command that is under way ends by itself and finds that nobody waits. */
void path_scan_stop(struct path *path)
{
	path->scan.step = SCAN_IDLE;
	path->scan.is_again = false;
	reactor_timer_cancel(&path->scan.again_timer);
}
