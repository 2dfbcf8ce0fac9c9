/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the namespaces of one path: the list (CNS 02h), then the page (00h) and the identifiers
 * (03h) of each namespace, SCAN_LOOKS namespaces at a time: over a slow link ten thousand
 * namespaces, one after the other, would take longer than a path may take to connect. Runs on the
 * mpath's reactor. NVMe Base 2.1, section 5.1.13; changed namespaces (log 04h), section 5.1.12.1.5.
 *
 * The first scan of a connection reads everything and is followed by the ANA log. After a notice a
 * scan reads the list of changes, then only changed and new namespaces. Invalid data of a namespace
 * costs that namespace; an invalid list costs the path. A listed namespace that could not be asked
 * about is asked about again later. Until then it is not used there, because it may be another
 * namespace, and is not gone.
 */
#include "host/mpath_internal.h"

#include "base/clock.h"
#include "base/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A few less than the admin queue has slots, so that other commands do not wait long behind a
 * scan. */
#define SCAN_LOOKS 16
#define SCAN_TRIES 4 /* attempts for one command of a scan */
/* Before it asks again, a scan waits PATH_REREAD_MS. The wait doubles up to this many times. */
#define SCAN_AGAIN_DOUBLINGS 7

/* One namespace that is being identified. */
struct scan_look {
	struct path *path;
	struct list node; /* in scan.idle_looks while unused */
	uint32_t nsid;
	bool has_page; /* identity has CNS 00h; CNS 03h is being read */
	uint8_t tries; /* commands that failed */
	struct host_cmd cmd;
	struct ns_identity identity;
	uint8_t page[NVME_PAGE_BYTES];
};

static void on_scan_done(struct host_cmd *cmd);
static void on_look_done(struct host_cmd *cmd);

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

static void scan_changed(struct path *path)
{
	host_cmd_log(&path->scan.cmd, NVME_NSID_ALL, LOG_CHANGED_NS, 0, path->scan.page,
		     LOG_CHANGED_NS_BYTES);
	scan_submit(path, SCAN_CHANGED);
}

/* Allocated only while a scan runs, because they are large. */
static int looks_create(struct path *path)
{
	struct path_scan *scan = &path->scan;

	if (scan->looks != NULL)
		return 0;
	scan->looks = calloc(SCAN_LOOKS, sizeof(*scan->looks));
	if (scan->looks == NULL)
		return -ENOMEM;
	list_init(&scan->idle_looks);
	for (unsigned i = 0; i < SCAN_LOOKS; i++) {
		scan->looks[i].path = path;
		list_push_back(&scan->idle_looks, &scan->looks[i].node);
	}
	return 0;
}

/* No command of a look may be in flight. */
static void looks_free(struct path_scan *scan)
{
	free(scan->looks);
	scan->looks = NULL;
}

static void scan_begin(struct path *path)
{
	path->scan.number++;
	path->scan.has_left_out = false;
	path->scan.refused_unknown = 0;
	path->scan.ns_seen = 0;
	path->scan.count = 0;
	path->scan.index = 0;
	scan_list(path, 0);
}

static void again_arm(struct path *path, unsigned doublings)
{
	if (!path->scan.again_timer.armed)
		reactor_timer_arm(&path->scan.again_timer,
				  reactor_now_ns(path->mpath->reactor) +
					  ((uint64_t)PATH_REREAD_MS << doublings) * NS_PER_MS);
}

static void scan_end(struct path *path)
{
	struct path_scan *scan = &path->scan;

	scan->step = SCAN_IDLE;
	looks_free(scan);
	if (!scan->has_left_out && !scan->has_unread_log) {
		scan->again_doublings = 0;
	} else {
		again_arm(path, scan->again_doublings);
		scan->again_doublings += scan->again_doublings < SCAN_AGAIN_DOUBLINGS;
	}
	ns_sweep(path, scan->number);
	path_losses_tell(path);
	/* A new namespace may be in a new group. */
	path_ana_read(path);
	if (scan->is_again && path->ctrl != NULL && !path->is_leaving)
		path_scan_start(path, false);
}

/* ---- the list, and the log of changes -------------------------------------------------------- */

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

	scan->has_unread_log = false;
	/* The page has the layout of a namespace list. */
	scan->changed_count = identify_ns_list_decode(scan->page, scan->changed);
	/* The log overflowed: any namespace may have changed. */
	if (scan->changed_count > 0 && scan->changed[0] == NVME_NSID_ALL) {
		scan->is_all = true;
		ns_doubt_all(path);
		return;
	}
	for (uint32_t i = 0; i < scan->changed_count; i++)
		ns_doubt(path, scan->changed[i]);
}

/* Log 04h could not be read. All namespaces are identified instead. The log must still be read,
 * later if need be: until then the controller reports no more changes. */
static void changed_refused(struct path *path, nvme_status status)
{
	struct path_scan *scan = &path->scan;

	if (!scan->is_all)
		ns_doubt_all(path);
	scan->is_all = true;
	scan->has_unread_log = (status.value & NVME_STATUS_DNR) == 0;
	if (scan->has_unread_log && ++scan->changed_tries < SCAN_TRIES)
		scan_changed(path);
	else
		scan_begin(path);
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

/* ---- identifying one namespace --------------------------------------------------------------- */

static void look_skip(const struct scan_look *look, const char *why)
{
	log_limited(LOG_LEVEL_WARN, "host", "%s: path %s: namespace %u is left out: %s",
		    look->path->mpath->config.subsystem_nqn, look->path->name, look->nsid, why);
}

static void look_ask(struct scan_look *look, uint8_t cns)
{
	host_cmd_identify(&look->cmd, look->nsid, cns, look->page);
	look->cmd.done = on_look_done;
	host_submit_admin(look->path->ctrl, &look->cmd);
}

static void look_begin(struct path *path, uint32_t nsid)
{
	struct scan_look *look =
		list_entry(list_pop_front(&path->scan.idle_looks), struct scan_look, node);

	path->scan.looks_busy++;
	look->nsid = nsid;
	look->has_page = false;
	look->tries = 0;
	look_ask(look, IDENTIFY_NS);
}

/* True: the descriptors are being read, and the look continues. */
static bool look_take_page(struct scan_look *look)
{
	int res;

	memset(&look->identity, 0, sizeof(look->identity));
	res = identify_ns_decode(look->page, &look->identity);
	if (res != 0) {
		look_skip(look, res == -EOPNOTSUPP ? "its blocks have metadata"
						   : "its identity is invalid");
		return false;
	}
	look->has_page = true;
	look_ask(look, IDENTIFY_NS_DESCRIPTORS);
	return true;
}

static void look_take_descriptors(struct scan_look *look)
{
	struct path *path = look->path;
	int res = identify_ns_descriptors_decode(look->page, &look->identity);

	if (res != 0) {
		look_skip(look, res == -EOPNOTSUPP ? "the namespace has another command set"
						   : "its descriptors are invalid");
		return;
	}
	res = ns_seen(path, look->nsid, &look->identity, path->scan.number);
	if (res == -ENOMEM)
		path_fail(path, "out of memory for namespace %u", look->nsid);
}

/* The controller did not identify the namespace. True: asked again, and the look continues. */
static bool look_refused(struct scan_look *look, nvme_status status)
{
	bool is_final = (status.value & NVME_STATUS_DNR) != 0;
	bool is_of_path = nvme_status_is_path(status);

	/* The namespace was removed after the list was read. ns_sweep removes the rest. */
	if (nvme_status_same(status, NVME_SC_INVALID_NS))
		return false;
	/* A transient failure, such as a digest error, does not mean that the namespace is
	 * missing. */
	if (!is_final && !is_of_path && ++look->tries < SCAN_TRIES) {
		look_ask(look, look->has_page ? IDENTIFY_NS_DESCRIPTORS : IDENTIFY_NS);
		return true;
	}
	if (!is_final) {
		look->path->scan.has_left_out = true;
		ns_unsure(look->path, look->nsid, look->path->scan.number);
	}
	if (is_final || !is_of_path)
		look_skip(look, nvme_status_name(status));
	return false;
}

static void on_look_done(struct host_cmd *cmd)
{
	struct scan_look *look = container_of(cmd, struct scan_look, cmd);
	struct path *path = look->path;
	struct path_scan *scan = &path->scan;
	bool is_wanted =
		scan->step == SCAN_LOOKING && path->ctrl != NULL && host_ctrl_is_live(path->ctrl);

	if (is_wanted && nvme_status_is_ok(cmd->status)) {
		if (!look->has_page && look_take_page(look))
			return;
		if (look->has_page)
			look_take_descriptors(look);
	} else if (is_wanted && look_refused(look, cmd->status)) {
		return;
	}
	list_push_back(&scan->idle_looks, &look->node);
	scan->looks_busy--;
	if (!is_wanted)
		scan->step = SCAN_IDLE;
	path_scan_go_on(path);
}

/* ---- completion of scan commands ------------------------------------------------------------- */

static void on_list(struct path *path)
{
	if (!list_take(path)) {
		path_fail(path, "the list of namespaces is invalid");
	} else if (path->scan.count > 0 && looks_create(path) != 0) {
		path_fail(path, "out of memory for reading its namespaces");
	} else {
		path->scan.step = SCAN_LOOKING;
		path_scan_go_on(path);
	}
}

static void on_answer(struct path *path)
{
	switch (path->scan.step) {
	case SCAN_BEHAVIOR:
		scan_begin(path);
		break;
	case SCAN_CHANGED:
		changed_take(path);
		scan_begin(path);
		break;
	case SCAN_LIST:
		on_list(path);
		break;
	case SCAN_LOOKING:
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
		scan_begin(path); /* without retry delays */
	else if (step == SCAN_CHANGED)
		changed_refused(path, cmd->status);
	else
		path_fail(path, "Identify (namespace list) failed: %s (status 0x%03x)",
			  nvme_status_name(cmd->status), cmd->status.value & 0x7ff);
}

/* ---- the order of scan commands ---------------------------------------------------------------
 */

bool path_scan_looks_at(const struct path *path, uint32_t nsid)
{
	return path->scan.step == SCAN_LOOKING && is_changed(path, nsid);
}

/* Whether commands are in flight that the controller must receive before the namespace is
 * identified, because its answer changes their meaning. */
static bool has_blind_commands(const struct path *path, uint32_t nsid)
{
	const struct mpath_ns *ns = mpath_ns_find(path->mpath, nsid);

	return ns != NULL && ns->blind_counts[path->slot] > 0;
}

void path_scan_go_on(struct path *path)
{
	struct path_scan *scan = &path->scan;

	while (scan->step == SCAN_LOOKING && scan->index < scan->count &&
	       !list_empty(&scan->idle_looks)) {
		uint32_t nsid = scan->nsids[scan->index];

		/* The last of these commands calls this function again. */
		if (is_changed(path, nsid) && has_blind_commands(path, nsid))
			return;
		scan->index++;
		if (is_changed(path, nsid))
			look_begin(path, nsid);
		else
			ns_still_there(path, nsid, scan->number);
	}
	if (scan->step != SCAN_LOOKING || scan->index < scan->count || scan->looks_busy > 0)
		return;
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
	scan->changed_tries = 0;
	if (!is_all) {
		scan_changed(path);
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

	if (path->is_usable) {
		path_scan_start(path, !path->scan.has_unread_log);
		path->scan.is_all = true; /* identify all, whatever the log contains */
	} else if (path->state == PATH_CONNECTING) {
		again_arm(path, 0); /* the ANA log is still being read */
	}
}

void path_scan_later(struct path *path)
{
	again_arm(path, 0);
}

void path_scan_init(struct path *path)
{
	reactor_timer_init(path->mpath->reactor, &path->scan.again_timer, on_again_timer);
}

/* Commands in flight end by themselves and are then ignored. */
void path_scan_stop(struct path *path)
{
	path->scan.step = SCAN_IDLE;
	path->scan.is_again = false;
	path->scan.has_unread_log = false;
	path->scan.again_doublings = 0;
	reactor_timer_cancel(&path->scan.again_timer);
}

void path_scan_free(struct path *path)
{
	path_scan_stop(path);
	looks_free(&path->scan);
}
