/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands of an mpath: submitted, sent on the path that the policy picks, judged when they come
 * back, sent again where the rules allow. Runs on the mpath's reactor; nothing here allocates. NVMe
 * Base 2.1, sections 4.2.3 (status, CRD, DNR), 8.1.1 (ANA) and 9.6 (communication loss).
 *
 * An answered command has ended at the controller, with any status, so sending it again needs no
 * fence. A command whose controller was lost follows host/resend.h.
 */
#include "host/mpath_internal.h"

#include "base/clock.h"
#include "host/resend.h"
#include "wire/io_cmd.h"

#define IO_PATH_TRIES        32  /* retries on other paths, after path-related statuses */
#define IO_PATH_TRIES_FAST   4   /* of these, without a delay */
#define IO_RETRY_DELAY_MS    10  /* doubles; used if the controller reports no delay (CRD) */
#define IO_FUSE_FIRST        0x1 /* FUSE in the flags of the submission entry */
#define IO_FUSE_SECOND       0x2
#define NVME_SC_CTRL_PATHING NVME_STATUS(3, 0x60)

/* ---- the meaning of statuses ------------------------------------------------------------------
 */

enum verdict {
	VERDICT_END,   /* report the status to the caller */
	VERDICT_RETRY, /* the same command may work a little later */
	VERDICT_LINE,  /* retry, if possible on another path: this connection corrupts data */
	VERDICT_ELSEWHERE,
	VERDICT_MISSING, /* the controller does not have the namespace */
	VERDICT_LOOK,    /* perhaps: an inactive NSID may cause this status too */
};

/* Statuses that are missing here, and all with DNR, are reported to the caller. */
static const struct status_row {
	nvme_status status;
	enum verdict verdict;
	enum ana_state state; /* VERDICT_ELSEWHERE: the new state of the group */
	bool has_not_run;     /* even a command of RESEND_NEVER may be sent again */
} status_rows[] = {
	{NVME_SC_ANA_PERSISTENT_LOSS, VERDICT_ELSEWHERE, ANA_PERSISTENT_LOSS, true},
	{NVME_SC_ANA_INACCESSIBLE, VERDICT_ELSEWHERE, ANA_INACCESSIBLE, true},
	{NVME_SC_ANA_TRANSITION, VERDICT_ELSEWHERE, ANA_CHANGE, true},
	{NVME_SC_INTERNAL_PATH_ERROR, VERDICT_ELSEWHERE, ANA_INACCESSIBLE, false},
	{NVME_SC_CTRL_PATHING, VERDICT_ELSEWHERE, ANA_INACCESSIBLE, false},
	/* Defined for hosts only. A controller that sends them has trouble with its path. */
	{NVME_SC_HOST_PATHING_ERROR, VERDICT_ELSEWHERE, ANA_INACCESSIBLE, false},
	{NVME_SC_HOST_ABORTED, VERDICT_ELSEWHERE, ANA_INACCESSIBLE, false},
	{NVME_SC_INVALID_NS, VERDICT_MISSING, ANA_INACCESSIBLE, true},
	{NVME_SC_INVALID_FIELD, VERDICT_LOOK, ANA_INACCESSIBLE, true},
	/* Status of both commands: the pair fell apart before it ran, for example because the
	 * configuration changed. */
	{NVME_SC_FUSED_FAIL, VERDICT_RETRY, ANA_OPTIMIZED, true},
	{NVME_SC_NS_NOT_READY, VERDICT_RETRY, ANA_OPTIMIZED, true},
	{NVME_SC_DATA_TRANSFER_ERROR, VERDICT_LINE, ANA_OPTIMIZED, false},
	{NVME_SC_POWER_LOSS, VERDICT_RETRY, ANA_OPTIMIZED, false},
	{NVME_SC_INTERNAL, VERDICT_RETRY, ANA_OPTIMIZED, false},
	{NVME_SC_ABORT_REQUESTED, VERDICT_RETRY, ANA_OPTIMIZED, false},
	{NVME_SC_ABORT_SQ_DELETION, VERDICT_RETRY, ANA_OPTIMIZED, false},
	{NVME_SC_COMMAND_INTERRUPTED, VERDICT_RETRY, ANA_OPTIMIZED, false},
	{NVME_SC_TRANSIENT_TRANSPORT, VERDICT_LINE, ANA_OPTIMIZED, false},
};

static const struct status_row *status_find(nvme_status status)
{
	for (unsigned i = 0; i < ARRAY_LEN(status_rows); i++) {
		if (nvme_status_same(status_rows[i].status, status))
			return &status_rows[i];
	}
	return NULL;
}

static bool is_admin(const struct mpath_io *io)
{
	return io->ns->nsid == 0;
}

static enum resend_rule io_rule(const struct mpath_io *io)
{
	if (io->fused_write != NULL)
		return RESEND_NEVER;
	if (is_admin(io))
		return resend_rule_of_admin(&io->sqe);
	if (io->sqe.opcode == NVME_IO_COPY && io->iov_count == 1)
		return resend_rule_of_copy(&io->sqe, io->iov[0].iov_base, io->iov[0].iov_len);
	return resend_rule_of(&io->sqe);
}

/* Names blocks, but carries no data whose length would show the controller that the command was
 * made for another block size. */
static bool io_is_blind(const struct mpath_io *io)
{
	switch (io->sqe.opcode) {
	case NVME_IO_WRITE_ZEROES:
	case NVME_IO_DATASET_MANAGEMENT:
	case NVME_IO_WRITE_UNCORRECTABLE:
	case NVME_IO_VERIFY:
	case NVME_IO_COPY:
		return !is_admin(io);
	default:
		return false;
	}
}

static bool io_is_flush(const struct mpath_io *io)
{
	return io->sqe.opcode == NVME_IO_FLUSH && !is_admin(io);
}

/* Call when a command was acknowledged. Without FUA the blocks that the command changed are not on
 * stable media. For a fused pair the Write counts. */
static void io_note_change(const struct mpath_io *io, const struct path *path)
{
	const struct nvme_sqe *sqe = &io->sqe;

	switch (sqe->opcode) {
	case NVME_IO_COMPARE:
		if (io->fused_write == NULL)
			return;
		sqe = &io->fused_write->sqe;
		break;
	case NVME_IO_WRITE:
	case NVME_IO_WRITE_ZEROES:
	case NVME_IO_DATASET_MANAGEMENT:
	case NVME_IO_COPY:
		break;
	default:
		return;
	}
	if ((le32_get(sqe->cdw12) & NVME_IO_FUA) == 0)
		loss_write_acked(&io->ns->joined->loss, path->joined.cache, io->seen);
}

/* The status that shows the cause. If the Compare of a pair failed only because of the Write: the
 * Write's status. */
static nvme_status io_cause(const struct mpath_io *io)
{
	if (io->fused_write != NULL && nvme_status_same(io->cmd.status, NVME_SC_FUSED_FAIL))
		return io->fused_write->cmd.status;
	return io->cmd.status;
}

/* ---- the end of a command ---------------------------------------------------------------------
 */

/* If the namespace was replaced, every outcome becomes MPATH_STALE: a read may have read from the
 * namespace that has the NSID now, and a write is not in the namespace that it was meant for. */
static void io_set_result(struct mpath_io *io, enum mpath_result result, nvme_status status)
{
	if (ns_is_stale(io->ns)) {
		result = MPATH_STALE;
		status = NVME_SC_INVALID_NS;
	}
	io->result = result;
	io->status = status;
	io->dwords = io->cmd.result;
	if (io->fused_write != NULL && result != MPATH_OK && result != MPATH_STATUS) {
		io->fused_write->result = result;
		io->fused_write->status = status;
	}
}

void io_end(struct mpath_io *io, enum mpath_result result, nvme_status status)
{
	struct mpath *mpath = io->ns->mpath;

	io_set_result(io, result, status);
	list_push_back(&mpath->ended, &io->node);
	reactor_defer(mpath->reactor, &mpath->settle);
}

/* Whether the command's LBAs mean other bytes than the caller meant, because of a format. */
static bool io_is_stale(const struct mpath_io *io)
{
	return io->block_bytes != 0 && io->block_bytes != io->ns->identity.block_bytes;
}

/* For a command that may have run before or after a format: which bytes it used is unknown. */
static enum mpath_result io_result_stale(const struct mpath_io *io)
{
	return io_rule(io) == RESEND_AT_ONCE ? MPATH_STALE : MPATH_UNKNOWN;
}

/* The controller has completed the flush, but writes that the target lost before the flush are not
 * covered by it. */
static void io_end_flushed(struct mpath_io *io)
{
	bool is_whole = loss_flush_end(&io->ns->joined->loss, io->flush, io->flush_failed,
				       &io->losses_told);

	io_set_result(io, is_whole ? MPATH_OK : MPATH_LOST, NVME_SC_SUCCESS);
	io->done(io);
}

/* The controller failed a flush, perhaps because this host missed the notice of a loss. Scan again,
 * but only once for each mark. */
static void flush_doubt_mark(const struct mpath_io *io)
{
	struct mpath_ns *ns = io->ns;
	uint64_t mark;

	if (!nvme_status_same(io->cmd.status, NVME_SC_WRITE_FAULT) ||
	    !flush_mark_decode(&io->cmd.sqe, &mark) ||
	    (ns->has_doubted_mark && ns->doubted_mark == mark))
		return;
	ns->has_doubted_mark = true;
	ns->doubted_mark = mark;
	path_scan_later(io->path);
}

void io_end_answered(struct mpath_io *io)
{
	struct mpath_io *second = io->fused_write;

	if (io_is_flush(io) && nvme_status_is_ok(io->cmd.status)) {
		io_end_flushed(io);
		return;
	}
	if (io_is_flush(io))
		flush_doubt_mark(io);
	if (io_is_stale(io) && nvme_status_is_ok(io->cmd.status)) {
		io_set_result(io, io_result_stale(io), NVME_SC_SUCCESS);
		io->done(io);
		return;
	}
	if (second != NULL) {
		second->status = second->cmd.status;
		second->dwords = second->cmd.result;
		second->result = nvme_status_is_ok(second->status) ? MPATH_OK : MPATH_STATUS;
	}
	io_set_result(io, nvme_status_is_ok(io->cmd.status) ? MPATH_OK : MPATH_STATUS,
		      io->cmd.status);
	io->done(io);
}

/* The command will not run any more, but it may have run before. */
static void io_end_no_path(struct mpath_io *io)
{
	if (io->may_have_run && io_rule(io) != RESEND_AT_ONCE)
		io_end(io, MPATH_UNKNOWN, NVME_SC_HOST_PATHING_ERROR);
	else
		io_end(io, MPATH_NO_PATH, NVME_SC_HOST_PATHING_ERROR);
}

void io_after_fence(struct mpath_io *io, bool is_certain)
{
	if (is_certain && io_rule(io) == RESEND_FENCED)
		io_send(io);
	else
		io_end(io, MPATH_UNKNOWN, NVME_SC_HOST_PATHING_ERROR);
}

/* ---- waiting ----------------------------------------------------------------------------------
 */

void io_starve_arm(struct mpath *mpath)
{
	uint64_t limit_ns = mpath->config.timeouts.fast_io_fail_ms * NS_PER_MS;
	uint64_t first_ns = UINT64_MAX;

	if (limit_ns == 0)
		return;
	list_for_each(node, &mpath->starved) {
		struct mpath_ns *ns = list_entry(node, struct mpath_ns, waiting_node);

		if (ns->no_path_since_ns + limit_ns < first_ns)
			first_ns = ns->no_path_since_ns + limit_ns;
	}
	if (first_ns == UINT64_MAX)
		reactor_timer_cancel(&mpath->starve_timer);
	else
		reactor_timer_arm(&mpath->starve_timer, first_ns);
}

static void on_starve_timer(struct reactor_timer *timer)
{
	struct mpath *mpath = container_of(timer, struct mpath, starve_timer);
	uint64_t limit_ns = mpath->config.timeouts.fast_io_fail_ms * NS_PER_MS;
	uint64_t now_ns = reactor_now_ns(mpath->reactor);

	list_for_each_safe(node, &mpath->starved) {
		struct mpath_ns *ns = list_entry(node, struct mpath_ns, waiting_node);
		struct list *io_node;

		if (now_ns < ns->no_path_since_ns + limit_ns)
			continue;
		while ((io_node = list_pop_front(&ns->waiting)) != NULL)
			io_end_no_path(list_entry(io_node, struct mpath_io, node));
		list_remove(&ns->waiting_node);
	}
	io_starve_arm(mpath);
}

/* Whether every path is usable and reports that it can never carry this namespace. */
static bool ns_is_hopeless(const struct mpath_ns *ns)
{
	/* A path may still be added. */
	if (ns->nsid == 0 || ns->mpath->path_count == 0)
		return false;
	for (unsigned i = 0; i < ns->mpath->path_count; i++) {
		const struct path *path = ns->mpath->paths[i];

		if (!path->is_usable || ns->on[path->slot].is_unsure ||
		    (ns->on[path->slot].is_there && ns_path_state(ns, path) != ANA_PERSISTENT_LOSS))
			return false;
	}
	return true;
}

static void io_wait(struct mpath_io *io)
{
	struct mpath_ns *ns = io->ns;

	if (ns_is_hopeless(ns)) {
		io_end_no_path(io);
		return;
	}
	list_push_back(&ns->waiting, &io->node);
	if (list_linked(&ns->waiting_node))
		return;
	list_push_back(&ns->mpath->starved, &ns->waiting_node);
	io_starve_arm(ns->mpath);
}

void io_wake(struct mpath_ns *ns)
{
	struct list woken;
	struct list *node;

	if (!list_linked(&ns->waiting_node))
		return;
	list_init(&woken);
	list_splice_back(&woken, &ns->waiting);
	list_remove(&ns->waiting_node);
	while ((node = list_pop_front(&woken)) != NULL)
		io_send(list_entry(node, struct mpath_io, node));
	io_starve_arm(ns->mpath);
}

static void delay_arm(struct mpath *mpath)
{
	uint64_t first_ns = UINT64_MAX;

	list_for_each(node, &mpath->delayed) {
		const struct mpath_io *io = list_entry(node, struct mpath_io, node);

		first_ns = io->retry_at_ns < first_ns ? io->retry_at_ns : first_ns;
	}
	if (first_ns != UINT64_MAX)
		reactor_timer_arm(&mpath->delay_timer, first_ns);
}

static bool ns_is_on_path(const struct mpath_ns *ns, const struct path *path)
{
	for (unsigned i = 0; i < ns->mpath->path_count; i++) {
		if (ns->mpath->paths[i] == path)
			return path->is_usable && ns->on[path->slot].is_there &&
			       !ns->on[path->slot].is_other;
	}
	return false;
}

/* After a rescan: if the path still has the namespace, the refusal was about the command itself,
 * and DNR is final. */
static void io_looked(struct mpath_io *io)
{
	io->is_looking = false;
	if ((io_cause(io).value & NVME_STATUS_DNR) != 0 && !io->ns->is_gone &&
	    ns_is_on_path(io->ns, io->path))
		io_end_answered(io);
	else
		io_send(io);
}

static void on_delay_timer(struct reactor_timer *timer)
{
	struct mpath *mpath = container_of(timer, struct mpath, delay_timer);
	uint64_t now_ns = reactor_now_ns(mpath->reactor);

	list_for_each_safe(node, &mpath->delayed) {
		struct mpath_io *io = list_entry(node, struct mpath_io, node);

		if (io->retry_at_ns > now_ns)
			continue;
		list_remove(node);
		if (io->is_looking)
			io_looked(io);
		else
			io_send(io);
	}
	delay_arm(mpath);
}

static void io_delay(struct mpath_io *io, uint64_t delay_ms)
{
	struct mpath *mpath = io->ns->mpath;

	io->retry_at_ns = reactor_now_ns(mpath->reactor) + delay_ms * NS_PER_MS;
	list_push_back(&mpath->delayed, &io->node);
	delay_arm(mpath);
}

void io_init(struct mpath *mpath)
{
	list_init(&mpath->starved);
	list_init(&mpath->delayed);
	reactor_timer_init(mpath->reactor, &mpath->starve_timer, on_starve_timer);
	reactor_timer_init(mpath->reactor, &mpath->delay_timer, on_delay_timer);
}

/* ---- judging ----------------------------------------------------------------------------------
 */

/* The status shows that this path cannot carry the namespace now. */
static void io_elsewhere(struct mpath_io *io, struct path *path, const struct status_row *row)
{
	struct mpath_ns *ns = io->ns;
	struct ns_on_path *on = &ns->on[path->slot];
	bool is_paused = is_admin(io) || ++io->path_tries > IO_PATH_TRIES_FAST;

	if (is_admin(io)) {
		io->retries_left--;
	} else if (row->verdict == VERDICT_MISSING) {
		ns_missing(ns, path);
	} else if (path->identity.has_ana) {
		if (path_ana_set(path, on->ana_group, row->state))
			ns_recompute_all(ns->mpath);
	} else {
		on->is_avoided = true;
		path_ana_read_later(path);
		ns_recompute(ns);
	}
	if (is_paused)
		io_delay(io, PATH_REREAD_MS);
	else
		io_send(io);
}

/* Whether the command has changed nothing, so that it may be sent again under any rule. */
static bool io_has_not_run(const struct mpath_io *io, const struct status_row *row)
{
	return row->has_not_run ||
	       (io->fused_write != NULL &&
		nvme_status_same(io->fused_write->cmd.status, NVME_SC_FUSED_FAIL));
}

/* True: the command will be sent again. False: report the status to the caller. */
static bool io_try_again(struct mpath_io *io, struct path *path)
{
	nvme_status status = io_cause(io);
	const struct status_row *row = status_find(status);
	unsigned crd = status.value >> 11 & 3;
	uint64_t delay_ms;

	if (row == NULL || (io_rule(io) == RESEND_NEVER && !io_has_not_run(io, row)))
		return false;
	io->may_have_run |= !io_has_not_run(io, row);
	if (row->verdict == VERDICT_LOOK) {
		if (is_admin(io) || io->path_tries > 0)
			return false;
		io->path_tries++;
		io->is_looking = true;
		path_scan_later(path);
		io_delay(io, 2ull * PATH_REREAD_MS);
		return true;
	}
	/* DNR is final, except if the namespace is missing: another path may have it, or it is
	 * gone. */
	if ((status.value & NVME_STATUS_DNR) != 0 && row->verdict != VERDICT_MISSING)
		return false;
	/* An admin command may name any namespace, so a missing one is the answer. */
	if (is_admin(io) && (row->verdict == VERDICT_MISSING || io->retries_left == 0))
		return false;
	if (row->verdict == VERDICT_ELSEWHERE || row->verdict == VERDICT_MISSING) {
		if (io->path_tries >= IO_PATH_TRIES)
			return false;
		io_elsewhere(io, path, row);
		return true;
	}
	if (io->retries_left == 0)
		return false;
	/* The namespace may have a new format, which the controller requires this host to see
	 * first. */
	if (nvme_status_same(status, NVME_SC_NS_NOT_READY))
		path_scan_later(path);
	delay_ms = crd > 0 ? path->identity.retry_delays_ms[crd - 1]
			   : (uint64_t)IO_RETRY_DELAY_MS << (IO_RETRIES - io->retries_left);
	io->retries_left--;
	io->shun_slot = row->verdict == VERDICT_LINE ? (uint8_t)path->slot : MPATH_PATHS_MAX;
	io_delay(io, delay_ms);
	return true;
}

static void io_lost(struct mpath_io *io, struct path *path, bool may_have_run)
{
	enum resend_rule rule = io_rule(io);

	path_losing(path);
	if (may_have_run)
		io->may_have_run = true;
	if (!may_have_run || rule == RESEND_AT_ONCE)
		io_send(io);
	else if (!io->ns->mpath->config.is_fencing_off)
		fence_hold(path, io);
	else
		io_after_fence(io, true);
}

bool io_is_lost(const struct host_cmd *cmd, const struct path *path)
{
	return nvme_status_same(cmd->status, NVME_SC_HOST_PATHING_ERROR) &&
	       !host_ctrl_is_live(path->ctrl);
}

static void io_took(const struct mpath_io *io, struct path *path, uint64_t now_ns)
{
	uint64_t took_ns = now_ns - io->sent_ns;

	path_latency_add(&path->latency, took_ns, now_ns);
	if (path->queue_count > 1)
		path_latency_add(&path->queue_latency[io->queue], took_ns, now_ns);
}

/* The command, or both commands of a fused pair, are back. */
static void io_back(struct mpath_io *io)
{
	struct path *path = io->path;
	const struct host_cmd *second = io->fused_write != NULL ? &io->fused_write->cmd : NULL;
	uint64_t now_ns = reactor_now_ns(io->ns->mpath->reactor);
	bool is_second_lost = second != NULL && io_is_lost(second, path);
	bool is_ok = nvme_status_is_ok(io->cmd.status);
	bool is_lost = !is_ok && io_is_lost(&io->cmd, path);

	if (is_admin(io)) {
		path->admin_count--;
	} else {
		list_remove(&io->node);
		path->in_flight_count--;
		path->queue_in_flight[io->queue]--;
		if (io_is_blind(io) && --io->ns->blind_counts[path->slot] == 0)
			path_scan_go_on(path);
	}
	if (io->ns->mpath->hedge != NULL && !is_admin(io) && hedge_on_back(io, is_lost)) {
		/* The twin decides the result. */
		path_losing(path);
	} else if (is_lost) {
		io_lost(io, path, io->cmd.may_have_run || (second != NULL && second->may_have_run));
	} else if (is_second_lost && is_ok) {
		io_lost(io, path, second->may_have_run);
	} else {
		path->commands++;
		path->answered_ns += now_ns - io->sent_ns;
		if (is_ok && !is_admin(io)) {
			io_took(io, path, now_ns);
			if (io->sqe.opcode != NVME_IO_READ)
				io_note_change(io, path);
		}
		/* The Compare was answered and failed, so the lost Write has not run. */
		if (is_second_lost)
			io->fused_write->cmd.status = NVME_SC_FUSED_FAIL;
		if (is_ok || !io_try_again(io, path))
			io_end_answered(io);
	}
	path_command_ended(path);
}

static void on_cmd_done(struct host_cmd *cmd)
{
	struct mpath_io *io = container_of(cmd, struct mpath_io, cmd);

	if (--io->cmds_busy == 0)
		io_back(io);
}

static void on_second_done(struct host_cmd *cmd)
{
	struct mpath_io *io = container_of(cmd, struct mpath_io, cmd)->fused_first;

	if (--io->cmds_busy == 0)
		io_back(io);
}

/* ---- sending ----------------------------------------------------------------------------------
 */

static void path_sample_fill(const struct path *path, uint64_t now_ns, struct path_sample *sample)
{
	const struct mpath_io *oldest = list_entry(path->in_flight.next, struct mpath_io, node);

	*sample = (struct path_sample){
		.in_flight = path->in_flight_count,
		.numa_distance = path->numa_distance,
		.oldest_ns = list_empty(&path->in_flight) ? 0 : now_ns - oldest->sent_ns,
		.picked_ns = path->picked_ns,
		.latency = path->latency,
	};
}

static struct path *ns_pick(struct mpath_ns *ns, uint64_t now_ns, unsigned shun_slot)
{
	struct path_sample *samples = ns->mpath->samples;
	unsigned count = ns->candidate_count, pick;

	if (count == 1)
		return ns->candidates[0];
	for (unsigned i = 0; i < count; i++)
		path_sample_fill(ns->candidates[i], now_ns, &samples[i]);
	pick = path_policy_pick(&ns->policy, samples, count, now_ns);
	if (ns->candidates[pick]->slot == shun_slot)
		pick = pick + 1 < count ? pick + 1 : 0;
	return ns->candidates[pick];
}

/* The queue with the fewest commands in flight. Equal queues take turns. */
unsigned io_queue_pick(struct path *path)
{
	unsigned count = path->queue_count, turn, best, queue;

	if (count == 1)
		return 0;
	/* The new controller may have granted fewer queues than the last one. */
	turn = path->queue_turn < count ? path->queue_turn : 0;
	best = turn;
	queue = turn;
	for (unsigned i = 1; i < count; i++) {
		queue = queue + 1 < count ? queue + 1 : 0;
		if (path->queue_in_flight[queue] < path->queue_in_flight[best])
			best = queue;
	}
	path->queue_turn = best + 1;
	return best;
}

static void cmd_fill(struct mpath_io *io, uint32_t nsid, void (*done)(struct host_cmd *cmd))
{
	struct host_cmd *cmd = &io->cmd;

	cmd->sqe = io->sqe;
	if (nsid != 0)
		cmd->sqe.nsid = le32_of(nsid);
	cmd->direction = io->direction;
	cmd->data = io->iov_count == 1 ? io->iov[0].iov_base : NULL;
	cmd->data_bytes = io->data_bytes;
	cmd->iov = io->iov_count > 1 ? io->iov : NULL;
	cmd->iov_count = io->iov_count > 1 ? io->iov_count : 0;
	cmd->fused_next = NULL;
	cmd->may_have_run = false;
	cmd->done = done;
}

/* Puts the known mark of lost writes into the flush. The controller fails the flush of a host that
 * does not know the latest loss. */
static void flush_tell_mark(struct mpath_io *io, const struct path *path)
{
	const struct mpath_ns *ns = io->ns;
	uint64_t source = ns->on[path->slot].loss_source;
	uint64_t mark;

	if (source != 0 && loss_ns_mark(&ns->joined->loss, source, &mark))
		flush_mark_encode(&io->cmd.sqe, mark);
}

void io_send(struct mpath_io *io)
{
	struct mpath_ns *ns = io->ns;
	struct mpath_io *second = io->fused_write;
	uint64_t now_ns = reactor_now_ns(ns->mpath->reactor);
	struct path *path;

	if (ns->is_gone || ns_is_stale(ns)) {
		ns_on_stale(ns);
		io_end(io, MPATH_GONE, NVME_SC_INVALID_NS);
		return;
	}
	if (io_is_stale(io)) {
		io_end(io, io->may_have_run ? io_result_stale(io) : MPATH_STALE,
		       NVME_SC_INVALID_NS);
		return;
	}
	if (ns->candidate_count == 0) {
		io_wait(io);
		return;
	}
	path = ns_pick(ns, now_ns, io->shun_slot);
	/* Once the controller has reported a new block size, it interprets all later commands by
	 * that size. So no command for the old size may still be on its way. */
	if (io_is_blind(io) && path_scan_looks_at(path, ns->nsid)) {
		io_delay(io, IO_BLIND_DELAY_MS);
		return;
	}
	path->picked_ns = now_ns;
	io->path = path;
	io->sent_ns = now_ns;
	io->cmds_busy = 1;
	if (io->attempts < UINT8_MAX)
		io->attempts++;
	cmd_fill(io, ns->nsid, on_cmd_done);
	if (is_admin(io)) {
		path->admin_count++;
		host_submit_admin(path->ctrl, &io->cmd);
		return;
	}
	io->seen = loss_seen(&ns->joined->loss);
	if (io_is_flush(io))
		flush_tell_mark(io, path);
	if (second != NULL) {
		io->cmds_busy = 2;
		second->fused_first = io;
		cmd_fill(second, ns->nsid, on_second_done);
		io->cmd.sqe.flags |= IO_FUSE_FIRST;
		second->cmd.sqe.flags |= IO_FUSE_SECOND;
		io->cmd.fused_next = &second->cmd;
	}
	if (io_is_blind(io))
		ns->blind_counts[path->slot]++;
	io->queue = (uint16_t)io_queue_pick(path);
	path->queue_in_flight[io->queue]++;
	path->in_flight_count++;
	list_push_back(&path->in_flight, &io->node);
	host_submit_io(path->ctrl, io->queue, &io->cmd);
	if (ns->mpath->hedge != NULL)
		hedge_on_sent(io);
}

static void io_begin(struct mpath_ns *ns, struct mpath_io *io)
{
	CHECK_OWNER(ns->mpath);
	CHECK(io->done != NULL && !ns->mpath->is_closing);
	io->ns = ns;
	io->attempts = 0;
	io->path_tries = 0;
	io->retries_left = IO_RETRIES;
	io->shun_slot = MPATH_PATHS_MAX;
	io->may_have_run = false;
	io->is_looking = false;
	io->is_hedged = false;
	io->hedge = NULL;
	io->cmd.result = 0;
	io->submitted_ns = reactor_now_ns(ns->mpath->reactor);
	list_init(&io->node);
	list_init(&io->hedge_node);
	if (io_is_flush(io))
		io->flush = loss_flush_begin(&ns->joined->loss);
	io_send(io);
}

void mpath_submit(struct mpath_ns *ns, struct mpath_io *io)
{
	io_begin(ns, io);
}

void mpath_submit_admin(struct mpath *mpath, struct mpath_io *io)
{
	CHECK(io->fused_write == NULL);
	io_begin(&mpath->admin, io);
}
