/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One path: its controller is connected, its namespaces and ANA states are read, the path is live,
 * is lost, is tried again, for ever. Runs on the mpath's reactor.
 *
 * Attempts are spaced by a back-off that doubles, minus a random part. A path that was lost before
 * it had been live for stable_ms is damped: its back-off continues to grow, and it carries commands
 * only when no stable path can, until it has been live for stable_ms. Only mpath_remove_path and
 * mpath_close end a path.
 */
#include "host/mpath_internal.h"

#include "base/clock.h"
#include "base/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void on_connected(struct host_ctrl *ctrl, void *arg, int res,
			 const struct host_error *error);
static void on_lost(struct host_ctrl *ctrl, void *arg, const struct host_error *error);
static void on_event(struct host_ctrl *ctrl, void *arg, const struct async_event *event);

static uint64_t path_now(const struct path *path)
{
	return reactor_now_ns(path->mpath->reactor);
}

/* ---- back-off ------------------------------------------------------------------------------- */

/*
 * A path that was refused for a live controller (join_ctrl_is_barred) checks the join every
 * reconnect_min_ms. If the target was restarted, I/O then waits only until that controller is lost,
 * and not for the back-off as well. A check costs no connection.
 */
static void retry_arm(struct path *path)
{
	uint64_t look_ns =
		path_now(path) + path->mpath->config.timeouts.reconnect_min_ms * NS_PER_MS;
	bool is_look = path->is_barred && look_ns < path->retry_at_ns;

	reactor_timer_arm(&path->retry_timer, is_look ? look_ns : path->retry_at_ns);
}

static bool path_is_barred(struct path *path)
{
	return path->is_barred && path_now(path) < path->retry_at_ns &&
	       join_ctrl_is_barred(path->mpath->join, &path->joined);
}

static void path_retry(struct path *path)
{
	const struct host_timeouts *timeouts = &path->mpath->config.timeouts;
	uint64_t now_ns = path_now(path);
	uint64_t wait_ns = path->backoff_ms * NS_PER_MS;
	uint64_t jitter_ns = wait_ns / 100 * timeouts->jitter_percent;

	path->state = PATH_WAITING;
	path->backoff_ms = path->backoff_ms > timeouts->reconnect_max_ms / 2
				   ? timeouts->reconnect_max_ms
				   : path->backoff_ms * 2;
	if (timeouts->ctrl_loss_ms > 0 && !path->is_given_up &&
	    now_ns - path->down_since_ns >= timeouts->ctrl_loss_ms * NS_PER_MS) {
		path->is_given_up = true;
		path->backoff_ms = timeouts->reconnect_max_ms;
		mpath_say(path->mpath, path,
			  "reported as lost after %u ms; still tried every %u ms",
			  timeouts->ctrl_loss_ms, timeouts->reconnect_max_ms);
	}
	if (jitter_ns > 0)
		wait_ns -= prng_below(&path->mpath->prng, jitter_ns + 1);
	path->retry_at_ns = now_ns + wait_ns;
	retry_arm(path);
}

static void on_stable_timer(struct reactor_timer *timer)
{
	struct path *path = container_of(timer, struct path, stable_timer);

	path->backoff_ms = path->mpath->config.timeouts.reconnect_min_ms;
	if (path->is_stable)
		return;
	path->is_stable = true;
	mpath_say(path->mpath, path, "is stable again");
	ns_recompute_all(path->mpath);
}

/* ---- the end of a controller ----------------------------------------------------------------- */

static void path_unusable(struct path *path)
{
	if (!path->is_usable)
		return;
	path->is_usable = false;
	reactor_timer_cancel(&path->stable_timer);
	ns_recompute_all(path->mpath);
	fence_on_path_lost(path);
}

void path_losing(struct path *path)
{
	path_unusable(path);
}

void path_losses_tell(const struct path *path)
{
	char text[JOIN_WHY_BYTES];

	if (join_loss_take(path->mpath->join, text))
		mpath_say(path->mpath, path, "%s", text);
}

static void path_unjoin(struct path *path)
{
	join_ctrl_leave(path->mpath->join, &path->joined);
	path_losses_tell(path);
}

static void path_gone_or_retry(struct path *path)
{
	path->ctrl = NULL;
	path_unjoin(path);
	fence_free(path->fence);
	path->fence = NULL;
	if (path->is_removed)
		mpath_on_path_gone(path);
	else
		path_retry(path);
}

/* Every command of the controller has come back and nothing more is sent to it. */
static void path_settle_loss(struct path *path, uint64_t last_sent_ns)
{
	uint64_t now_ns = path_now(path);
	uint64_t stable_ns = path->mpath->config.timeouts.stable_ms * NS_PER_MS;

	if (!path->was_live)
		return;
	path->was_live = false;
	path->losses++;
	path->down_since_ns = now_ns;
	if (now_ns - path->live_since_ns < stable_ns)
		path->is_stable = false;
	fence_start(path, last_sent_ns);
}

/* `lost` is not called for a controller that is lost while it is being disconnected, so settle the
 * loss here. */
static void on_gone(void *arg)
{
	struct path *path = arg;

	path_settle_loss(path, path_now(path));
	path_gone_or_retry(path);
}

/* The host gave the controller up: `lost` is not called. */
static void on_abandoned(void *arg)
{
	struct path *path = arg;

	path_settle_loss(path, path_now(path));
	path_gone_or_retry(path);
}

static void path_note_error(struct path *path, int res, const struct host_error *error)
{
	if (strcmp(path->last_error, error->text) != 0 && !path->is_removed)
		mpath_say(path->mpath, path, "%s", error->text);
	text_copy(path->last_error, sizeof(path->last_error), error->text);
	mpath_on_path_failed(path, res, error);
}

static void on_lost(struct host_ctrl *ctrl, void *arg, const struct host_error *error)
{
	struct path *path = arg;

	path_scan_stop(path);
	path_ana_stop(path);
	path_unusable(path);
	path_unjoin(path);
	path_note_error(path, -ENOTCONN, error);
	path_settle_loss(path, host_ctrl_last_sent_ns(ctrl));
	if (path->state != PATH_CLOSING)
		path->state = PATH_WAITING;
	if (path->is_leaving)
		return;
	path->is_leaving = true;
	host_disconnect(ctrl, on_gone, path);
}

void path_fail(struct path *path, const char *format, ...)
{
	struct host_error error = {.status = NVME_SC_SUCCESS};
	va_list args;

	if (path->is_leaving || path->ctrl == NULL)
		return;
	va_start(args, format);
	vsnprintf(error.text, sizeof(error.text), format, args);
	va_end(args);
	path_note_error(path, -EPROTO, &error);
	path_scan_stop(path);
	path_ana_stop(path);
	/* The controller's commands come back as after any loss, and are fenced as well. */
	path_unusable(path);
	path_unjoin(path);
	if (path->state != PATH_CLOSING)
		path->state = PATH_WAITING;
	path->is_leaving = true;
	host_abandon(path->ctrl, on_abandoned, path);
}

/* ---- connecting ------------------------------------------------------------------------------ */

static void path_start(struct path *path)
{
	const struct mpath_config *mpath_config = &path->mpath->config;
	const struct host_timeouts *timeouts = &mpath_config->timeouts;
	static const struct host_callbacks callbacks = {
		.connected = on_connected, .lost = on_lost, .event = on_event};
	struct host_config config = {
		.addr = path->addr,
		.host_id = mpath_config->host_id,
		.io_queues = mpath_config->io_queues,
		.io_queue_size = mpath_config->io_queue_size,
		.kato_ms = timeouts->keep_alive_ms,
		.wants_header_digest = mpath_config->wants_header_digest,
		.wants_data_digest = mpath_config->wants_data_digest,
		.connect_timeout_ms = timeouts->connect_ms,
		.command_timeout_ms = timeouts->command_ms,
		.silence_timeout_ms = timeouts->silence_ms,
		.unacked_timeout_ms = timeouts->unacked_ms,
		.zero_copy_min_bytes = mpath_config->zero_copy_min_bytes,
	};
	int res = fence_create(path);

	path->state = PATH_CONNECTING;
	path->is_leaving = false;
	path->is_barred = false;
	text_copy(config.subsystem_nqn, sizeof(config.subsystem_nqn), mpath_config->subsystem_nqn);
	text_copy(config.host_nqn, sizeof(config.host_nqn), mpath_config->host_nqn);
	if (res == 0)
		res = host_connect(path->mpath->reactor, &config, &callbacks, path, &path->ctrl);
	if (res != 0) {
		struct host_error error = {.text = "out of memory for a connection"};

		path_note_error(path, res, &error);
		path_gone_or_retry(path);
	}
}

static void on_retry_timer(struct reactor_timer *timer)
{
	struct path *path = container_of(timer, struct path, retry_timer);

	if (path->is_removed)
		mpath_on_path_gone(path);
	else if (path_is_barred(path))
		retry_arm(path);
	else
		path_start(path);
}

/* res and why are the join's answer. False: the controller was given up. */
static bool path_is_joined(struct path *path, int res, const char *why)
{
	if (res == 0)
		return true;
	if (res == -EUCLEAN)
		text_copy(path->refusal, sizeof(path->refusal), why);
	path_fail(path, "%s", why);
	return false;
}

/* Joins the controller to the subsystem. False: the controller was given up. */
static bool path_join(struct path *path)
{
	char why[JOIN_WHY_BYTES];
	int res = join_ctrl_enter(path->mpath->join, &path->joined, &path->identity, why);

	path_losses_tell(path);
	path->refusal[0] = '\0';
	path->is_barred = res == -EUCLEAN && join_ctrl_is_barred(path->mpath->join, &path->joined);
	return path_is_joined(path, res, why);
}

static void on_connected(struct host_ctrl *ctrl, void *arg, int res, const struct host_error *error)
{
	struct path *path = arg;
	const char *nqn = path->mpath->config.subsystem_nqn;

	if (res != 0) {
		/* The controller is freed after this callback. */
		path_note_error(path, res, error);
		path_gone_or_retry(path);
		return;
	}
	path->ctrl = ctrl;
	path->identity = *host_ctrl_identity(ctrl);
	path->kato_ms = host_ctrl_kato_ms(ctrl);
	path->queue_count = host_ctrl_io_queues(ctrl);
	memset(path->queue_in_flight, 0, sizeof(path->queue_in_flight));
	if (strcmp(path->identity.subsystem_nqn, nqn) != 0)
		path_fail(path, "the controller is of subsystem %s, not %s: check the address",
			  path->identity.subsystem_nqn, nqn);
	else if (path->identity.type != CTRL_TYPE_IO || path->queue_count == 0)
		path_fail(path, "the controller is not an I/O controller, or grants no I/O queue");
	else if (path_join(path))
		path_scan_start(path, true);
}

static void path_tell_live(struct path *path)
{
	const struct ctrl_identity *identity = &path->identity;
	char damped[64] = "";

	if (!path->is_stable)
		snprintf(damped, sizeof(damped), ", used last until stable for %u ms",
			 path->mpath->config.timeouts.stable_ms);
	path->last_error[0] = '\0';
	if (identity->reset_limit > 0 || path->has_told_reset) {
		mpath_say(path->mpath, path, "live, controller %u, %u I/O queues%s",
			  host_ctrl_cntlid(path->ctrl), path->queue_count, damped);
		return;
	}
	path->has_told_reset = true;
	mpath_say(path->mpath, path,
		  "live, controller %u, %u I/O queues%s; target without Cross-Controller Reset: "
		  "after a loss, writes wait KATO + CQT",
		  host_ctrl_cntlid(path->ctrl), path->queue_count, damped);
}

void path_setup_done(struct path *path)
{
	uint64_t now_ns = path_now(path);
	char why[JOIN_WHY_BYTES];

	if (path->state != PATH_CONNECTING || !host_ctrl_is_live(path->ctrl) ||
	    !path_is_joined(path, join_ctrl_confirm(path->mpath->join, &path->joined, why), why))
		return;
	path->state = PATH_LIVE;
	path->is_usable = true;
	path->was_live = true;
	path->is_given_up = false;
	path->generation++;
	path->live_since_ns = now_ns;
	path->latency = (struct path_latency){0};
	memset(path->queue_latency, 0, sizeof(path->queue_latency));
	reactor_timer_arm(&path->stable_timer,
			  now_ns + path->mpath->config.timeouts.stable_ms * NS_PER_MS);
	path_tell_live(path);
	mpath_on_path_live(path);
}

static void on_event(struct host_ctrl *ctrl, void *arg, const struct async_event *event)
{
	struct path *path = arg;

	if (event->type != ASYNC_TYPE_NOTICE || path->is_leaving)
		return;
	switch (event->info) {
	case ASYNC_NOTICE_NS_ATTRIBUTE:
		path_scan_start(path, false);
		break;
	case ASYNC_NOTICE_ANA_CHANGE:
		path_ana_read(path);
		break;
	case ASYNC_NOTICE_CTRL_RESET:
		fence_on_event(path);
		break;
	default:
		break;
	}
}

/* ---- life ------------------------------------------------------------------------------------ */

int path_create(struct mpath *mpath, const struct host_addr *addr, unsigned slot,
		struct path **ret_path)
{
	struct path *path = calloc(1, sizeof(*path));
	int res;

	if (path == NULL)
		return -ENOMEM;
	res = join_ctrl_add(mpath->join, &path->joined, addr);
	if (res != 0) {
		free(path);
		return res;
	}
	path->mpath = mpath;
	path->addr = *addr;
	host_addr_format(addr, path->name);
	path->slot = slot;
	path->state = PATH_WAITING;
	path->is_stable = true;
	path->numa_node = -1;
	path->down_since_ns = reactor_now_ns(mpath->reactor);
	path->backoff_ms = mpath->config.timeouts.reconnect_min_ms;
	list_init(&path->in_flight);
	reactor_timer_init(mpath->reactor, &path->retry_timer, on_retry_timer);
	reactor_timer_init(mpath->reactor, &path->stable_timer, on_stable_timer);
	path_scan_init(path);
	path_ana_init(path);
	*ret_path = path;
	return 0;
}

/* Connects in the next turn, so that callbacks never come from inside mpath_open. */
void path_connect(struct path *path)
{
	reactor_timer_arm(&path->retry_timer, path_now(path));
}

static void path_disconnect(struct path *path)
{
	if (path->is_leaving)
		return;
	path->is_leaving = true;
	path_scan_stop(path);
	path_ana_stop(path);
	host_disconnect(path->ctrl, on_gone, path);
}

void path_leave(struct path *path)
{
	if (path->is_removed)
		return;
	path->is_removed = true;
	path_unusable(path);
	path->state = PATH_CLOSING;
	/* Without a controller, go through the timer, so that nothing is freed inside this call. */
	if (path->ctrl == NULL)
		reactor_timer_arm(&path->retry_timer, path_now(path));
	else
		path_command_ended(path);
}

void path_command_ended(struct path *path)
{
	if (!path->is_removed || path->in_flight_count > 0 || path->admin_count > 0)
		return;
	if (path->ctrl != NULL)
		path_disconnect(path);
}

void path_free(struct path *path)
{
	reactor_timer_cancel(&path->retry_timer);
	reactor_timer_cancel(&path->stable_timer);
	path_scan_free(path);
	path_ana_stop(path);
	path_ana_free(path);
	fence_free(path->fence);
	join_ctrl_remove(path->mpath->join, &path->joined);
	free(path);
}
