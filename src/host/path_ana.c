/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ANA states of one path: the log (0Ch) is read when the path is set up, when a notice reports
 * a change, and after a status that contradicts it. Runs on the mpath's reactor. NVMe Base 2.1,
 * sections 2.4.1 and 8.1.1.
 *
 * The log is read with its lists of namespaces, because a namespace may have moved to another group
 * since it was identified, and controllers announce a move only by the notice for this log. The log
 * is read whole, in pieces if one command cannot move it, and again if its change count differs
 * between first and last piece. A namespace that is in no list stays in the group that it reported
 * itself. A group in ANA_CHANGE for longer than ANATT counts as inaccessible. A controller without
 * ANA has one state: optimized.
 */
#include "host/mpath_internal.h"

#include "base/clock.h"
#include "base/le.h"
#include "base/sorted.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ANA_PIECE_BYTES 4096u
#define ANA_MOVES_MAX   8 /* a log that changed in this many readings is used as is */

static void on_ana_done(struct host_cmd *cmd);

static uint64_t path_now(const struct path *path)
{
	return reactor_now_ns(path->mpath->reactor);
}

/* ---- groups -----------------------------------------------------------------------------------
 */

static struct path_group *group_find(const struct path *path, uint32_t id)
{
	struct path_group *groups = path->ana.groups;
	unsigned count = path->ana.group_count;
	unsigned at = SORTED_PLACE(i, count, groups[i].id < id);

	return at < count && groups[at].id == id ? &groups[at] : NULL;
}

enum ana_state path_ana_state(const struct path *path, uint32_t group)
{
	const struct path_group *found;

	if (!path->identity.has_ana)
		return ANA_OPTIMIZED;
	found = group_find(path, group);
	return found != NULL ? found->state : ANA_INACCESSIBLE;
}

static uint64_t transition_ns(const struct path *path)
{
	uint32_t seconds = path->identity.ana_transition_s;

	return (seconds > 0 ? seconds * 1000ull : PATH_ANATT_MS) * NS_PER_MS;
}

static void transition_arm(struct path *path)
{
	uint64_t first_ns = UINT64_MAX;

	for (unsigned i = 0; i < path->ana.group_count; i++) {
		const struct path_group *group = &path->ana.groups[i];

		if (group->state == ANA_CHANGE && group->since_ns < first_ns)
			first_ns = group->since_ns;
	}
	if (first_ns == UINT64_MAX)
		reactor_timer_cancel(&path->ana.transition_timer);
	else
		reactor_timer_arm(&path->ana.transition_timer, first_ns + transition_ns(path));
}

static void on_transition_timer(struct reactor_timer *timer)
{
	struct path *path = container_of(timer, struct path, ana.transition_timer);
	uint64_t now_ns = path_now(path);

	for (unsigned i = 0; i < path->ana.group_count; i++) {
		struct path_group *group = &path->ana.groups[i];

		if (group->state != ANA_CHANGE || now_ns - group->since_ns < transition_ns(path))
			continue;
		group->state = ANA_INACCESSIBLE;
		group->is_overdue = true;
		mpath_say(path->mpath, path,
			  "ANA group %u has been in change for longer than ANATT: treated as "
			  "inaccessible",
			  group->id);
	}
	transition_arm(path);
	ns_recompute_all(path->mpath);
	path_ana_read_later(path);
}

static void group_set(struct path *path, struct path_group *group, enum ana_state state)
{
	if (group->is_overdue && state == ANA_CHANGE)
		return;
	group->is_overdue = false;
	if (group->state == state)
		return;
	group->state = state;
	group->since_ns = path_now(path);
	if (path->state == PATH_LIVE)
		mpath_say(path->mpath, path, "ANA group %u: %s", group->id, ana_state_name(state));
}

bool path_ana_set(struct path *path, uint32_t group, enum ana_state state)
{
	struct path_group *found = group_find(path, group);
	bool is_news = found != NULL && found->state != state;

	if (is_news) {
		group_set(path, found, state);
		transition_arm(path);
	}
	path_ana_read_later(path);
	return is_news;
}

/* ---- the log ----------------------------------------------------------------------------------
 */

/* Sets the group of the listed namespaces. */
static void nsids_take(struct path *path, uint32_t group, const uint8_t *list, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		le32 nsid;

		memcpy(&nsid, list + i * sizeof(nsid), sizeof(nsid));
		ns_set_group(path, le32_get(nsid), group);
	}
}

/* Takes the groups and their namespaces from the log. False: the log is invalid, or out of
 * memory. */
static bool log_take(struct path *path)
{
	struct path_ana *ana = &path->ana;
	struct path_group *before = calloc(ana->group_count + 1, sizeof(*before));
	unsigned before_count = ana->group_count;
	uint64_t change_count;
	uint16_t count;
	uint32_t last_id = 0, at = LOG_ANA_HEADER_BYTES;
	bool is_sound;

	if (before == NULL)
		return false;
	if (before_count > 0)
		memcpy(before, ana->groups, before_count * sizeof(*before));
	log_ana_header_decode(ana->log, &change_count, &count);
	/* The walk must have found all groups, so that none is decoded from bytes that were not
	 * read. */
	is_sound = count == ana->walked_groups;
	ana->group_count = 0;
	for (unsigned i = 0, k = 0; is_sound && i < count; i++) {
		struct path_group *group = &ana->groups[ana->group_count];
		enum ana_state state;
		uint32_t id, nsid_count;

		log_ana_group_decode(ana->log + at, &id, &nsid_count, &state);
		if (id <= last_id) {
			is_sound = false;
			break;
		}
		last_id = id;
		while (k < before_count && before[k].id < id)
			k++;
		*group = k < before_count && before[k].id == id
				 ? before[k]
				 : (struct path_group){
					   .id = id, .state = state, .since_ns = path_now(path)};
		ana->group_count++;
		group_set(path, group, state);
		nsids_take(path, id, ana->log + at + LOG_ANA_GROUP_BYTES, nsid_count);
		at += LOG_ANA_GROUP_BYTES + nsid_count * (uint32_t)sizeof(le32);
	}
	free(before);
	return is_sound;
}

/* Walks the descriptors that were read. Returns the least length of the log: exact once the list of
 * the last descriptor is included. 0: the log lists more namespaces than allowed. */
static uint32_t log_walk(struct path_ana *ana, uint16_t count, uint32_t have_bytes)
{
	while (ana->walked_groups < count &&
	       ana->walked_bytes + LOG_ANA_GROUP_BYTES <= have_bytes) {
		enum ana_state state;
		uint32_t id, nsid_count;

		log_ana_group_decode(ana->log + ana->walked_bytes, &id, &nsid_count, &state);
		if (nsid_count > MPATH_NS_MAX - ana->walked_nsids)
			return 0;
		ana->walked_nsids += nsid_count;
		ana->walked_bytes += LOG_ANA_GROUP_BYTES + nsid_count * (uint32_t)sizeof(le32);
		ana->walked_groups++;
	}
	return ana->walked_bytes + (count - ana->walked_groups) * LOG_ANA_GROUP_BYTES;
}

static void ana_submit(struct path *path, uint32_t offset, uint32_t len_bytes)
{
	struct path_ana *ana = &path->ana;
	struct log_cmd log = {.log_id = LOG_ANA, .len_bytes = len_bytes, .offset = offset};

	memset(&ana->cmd, 0, sizeof(ana->cmd));
	log_cmd_encode(&ana->cmd.sqe, 0, &log);
	ana->cmd.direction = HOST_DATA_FROM_CTRL;
	ana->cmd.data = ana->log + offset;
	ana->cmd.data_bytes = len_bytes;
	ana->cmd.done = on_ana_done;
	ana->offset = offset;
	ana->wanted_bytes = len_bytes;
	ana->is_busy = true;
	host_submit_admin(path->ctrl, &ana->cmd);
}

static void ana_read_begin(struct path *path)
{
	struct path_ana *ana = &path->ana;

	ana->is_again = false;
	ana->is_check = false;
	ana->walked_groups = 0;
	ana->walked_nsids = 0;
	ana->walked_bytes = LOG_ANA_HEADER_BYTES;
	ana->read_ns = path_now(path);
	ana_submit(path, 0, ana->first_bytes);
}

static void ana_read_end(struct path *path)
{
	struct path_ana *ana = &path->ana;

	ana->moves = 0;
	if (!log_take(path)) {
		path_fail(path, "the ANA log is invalid");
		return;
	}
	transition_arm(path);
	if (ana->is_again)
		ana_read_begin(path);
	else if (path->state == PATH_CONNECTING)
		path_setup_done(path);
	if (path->is_usable)
		ns_recompute_all(path->mpath);
}

/* Makes room for a longer log. No command of the log may be in flight. */
static int log_grow(struct path_ana *ana, uint32_t bytes)
{
	uint8_t *log;

	if (bytes <= ana->log_bytes)
		return 0;
	log = realloc(ana->log, bytes);
	if (log == NULL)
		return -ENOMEM;
	ana->log = log;
	ana->log_bytes = bytes;
	return 0;
}

/* Reads the next piece after `end`, or the header again to check that the pieces belong together,
 * or ends the reading. */
static void ana_go_on(struct path *path, uint16_t count, uint32_t end)
{
	struct path_ana *ana = &path->ana;
	uint32_t total = log_walk(ana, count, end);

	if (total == 0) {
		path_fail(path, "the ANA log lists more namespaces than possible");
	} else if (log_grow(ana, total) != 0) {
		path_fail(path, "out of memory for the ANA log");
	} else if (end < total) {
		ana_submit(path, end,
			   total - end < ANA_PIECE_BYTES ? total - end : ANA_PIECE_BYTES);
	} else if (ana->offset > 0) {
		ana->is_check = true;
		ana_submit(path, 0, LOG_ANA_HEADER_BYTES);
	} else {
		ana_read_end(path);
	}
}

static void ana_take_piece(struct path *path)
{
	struct path_ana *ana = &path->ana;
	uint64_t change_count;
	uint16_t count;

	log_ana_header_decode(ana->log, &change_count, &count);
	if (ana->offset == 0 && !ana->is_check)
		ana->change_count = change_count;
	if (count > ana->group_room)
		path_fail(path, "the ANA log has %u groups, more than the controller may have",
			  count);
	else if (!ana->is_check)
		ana_go_on(path, count, ana->offset + ana->wanted_bytes);
	else if (change_count != ana->change_count && ++ana->moves < ANA_MOVES_MAX)
		ana_read_begin(path);
	else
		ana_read_end(path);
}

static void on_ana_done(struct host_cmd *cmd)
{
	struct path *path = container_of(cmd, struct path, ana.cmd);

	path->ana.is_busy = false;
	if (path->ctrl == NULL || path->is_leaving || !host_ctrl_is_live(path->ctrl))
		return;
	if (nvme_status_is_ok(cmd->status))
		ana_take_piece(path);
	else
		path_fail(path, "Get Log Page (ANA) failed: %s (status 0x%03x)",
			  nvme_status_name(cmd->status), cmd->status.value & 0x7ff);
}

static int ana_room(struct path *path)
{
	struct path_ana *ana = &path->ana;
	uint32_t groups = path->identity.ana_group_count;
	uint64_t most_bytes;

	/* The header counts groups in 16 bits. */
	if (groups == 0 || groups > UINT16_MAX)
		groups = UINT16_MAX;
	/* Never ask for more bytes than the log can have. */
	most_bytes = LOG_ANA_HEADER_BYTES + (uint64_t)groups * LOG_ANA_GROUP_BYTES +
		     (uint64_t)path->identity.namespace_id_max * sizeof(le32);
	ana->first_bytes = most_bytes < ANA_PIECE_BYTES ? (uint32_t)most_bytes : ANA_PIECE_BYTES;
	if (ana->log != NULL && ana->group_room == groups)
		return 0;
	path_ana_free(path);
	ana->log = calloc(1, ANA_PIECE_BYTES);
	ana->groups = calloc(groups, sizeof(*ana->groups));
	if (ana->log == NULL || ana->groups == NULL)
		return -ENOMEM;
	ana->log_bytes = ANA_PIECE_BYTES;
	ana->group_room = groups;
	return 0;
}

void path_ana_read(struct path *path)
{
	struct path_ana *ana = &path->ana;

	/* A notice during the setup. The log is read after the scan anyway. A reading that ended
	 * before the scan would make a path live without its namespaces. */
	if (path->state == PATH_CONNECTING && path->scan.step != SCAN_IDLE)
		return;
	if (!path->identity.has_ana) {
		ns_stop_avoiding(path);
		if (path->state == PATH_CONNECTING)
			path_setup_done(path);
		return;
	}
	if (ana->is_busy) {
		ana->is_again = true;
		return;
	}
	if (ana_room(path) != 0)
		path_fail(path, "out of memory for the ANA log");
	else
		ana_read_begin(path);
}

static void on_reread_timer(struct reactor_timer *timer)
{
	struct path *path = container_of(timer, struct path, ana.reread_timer);

	if (path->is_usable)
		path_ana_read(path);
}

void path_ana_read_later(struct path *path)
{
	if (!path->ana.reread_timer.armed)
		reactor_timer_arm(&path->ana.reread_timer,
				  path_now(path) + PATH_REREAD_MS * NS_PER_MS);
}

void path_ana_init(struct path *path)
{
	reactor_timer_init(path->mpath->reactor, &path->ana.transition_timer, on_transition_timer);
	reactor_timer_init(path->mpath->reactor, &path->ana.reread_timer, on_reread_timer);
}

void path_ana_stop(struct path *path)
{
	path->ana.is_again = false;
	reactor_timer_cancel(&path->ana.transition_timer);
	reactor_timer_cancel(&path->ana.reread_timer);
}

void path_ana_free(struct path *path)
{
	free(path->ana.log);
	free(path->ana.groups);
	path->ana.log = NULL;
	path->ana.groups = NULL;
	path->ana.log_bytes = 0;
	path->ana.group_count = 0;
}
