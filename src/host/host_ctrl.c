/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of one controller as the host sees it: created by host_connect, live, lost or
 * disconnected, freed. Runs on the reactor given to host_connect.
 *
 * Every end of a controller goes through host_ctrl_fail or host_disconnect: the connections are
 * closed and their commands completed. When the last connection is closed, ctrl_settle informs the
 * caller and frees the controller. ctrl_settle runs at the end of the turn and never inside a
 * caller's function, so no callback can free the controller under a function of this folder.
 */
#include "base/log.h"
#include "host/host_internal.h"

#include <errno.h>
#include <stdlib.h>

static void ctrl_free(struct host_ctrl *ctrl)
{
	host_watch_stop(ctrl);
	reactor_defer_cancel(&ctrl->settle);
	for (unsigned i = 0; ctrl->io != NULL && i < ctrl->io_queue_count; i++)
		host_queue_destroy(ctrl->io[i]);
	free(ctrl->io);
	host_queue_destroy(ctrl->admin);
	free(ctrl->page);
	free(ctrl);
}

/* All connections are closed and all commands completed. */
static void ctrl_end(struct host_ctrl *ctrl)
{
	if (ctrl->is_released) {
		void (*gone)(void *arg) = ctrl->gone;
		void *gone_arg = ctrl->gone_arg;

		ctrl_free(ctrl);
		if (gone != NULL)
			gone(gone_arg);
	} else if (!ctrl->was_connected) {
		ctrl->is_in_callback = true;
		ctrl->callbacks.connected(ctrl, ctrl->arg, ctrl->end_result, &ctrl->error);
		ctrl_free(ctrl);
	} else {
		ctrl->phase = HOST_CTRL_LOST;
		if (ctrl->callbacks.lost != NULL)
			ctrl->callbacks.lost(ctrl, ctrl->arg, &ctrl->error);
		else
			log_limited(LOG_LEVEL_WARN, "host", "%s", ctrl->error.text);
	}
}

static void ctrl_settle(struct reactor_defer *defer)
{
	struct host_ctrl *ctrl = container_of(defer, struct host_ctrl, settle);
	struct list ended;

	list_init(&ended);
	list_splice_back(&ended, &ctrl->orphans);
	while (!list_empty(&ended)) {
		struct host_cmd *cmd = list_entry(list_pop_front(&ended), struct host_cmd, node);

		cmd->done(cmd);
	}
	/* A done callback that submitted again created a new orphan and deferred another round. */
	if (!list_empty(&ctrl->orphans))
		return;
	if (ctrl->phase == HOST_CTRL_ENDING && ctrl->open_queues == 0)
		ctrl_end(ctrl);
	else if (ctrl->phase == HOST_CTRL_LOST && ctrl->is_released)
		ctrl_end(ctrl);
}

void host_ctrl_orphan(struct host_ctrl *ctrl, struct host_cmd *cmd, nvme_status status)
{
	cmd->status = status;
	list_push_back(&ctrl->orphans, &cmd->node);
	reactor_defer(ctrl->reactor, &ctrl->settle);
}

void host_ctrl_close_queues(struct host_ctrl *ctrl, bool is_orderly, const char *why)
{
	for (unsigned i = 0; ctrl->io != NULL && i < ctrl->io_queue_count; i++)
		host_queue_close(ctrl->io[i], is_orderly, why);
	host_queue_close(ctrl->admin, is_orderly, why);
}

void host_ctrl_fail(struct host_ctrl *ctrl, int res, const struct host_error *error)
{
	if (ctrl->phase >= HOST_CTRL_ENDING)
		return;
	ctrl->phase = HOST_CTRL_ENDING;
	ctrl->end_result = res;
	ctrl->error = *error;
	host_watch_stop(ctrl);
	host_ctrl_close_queues(ctrl, false, "the controller failed");
	reactor_defer(ctrl->reactor, &ctrl->settle);
}

void host_ctrl_on_queue_ready(struct host_queue *queue)
{
	if (queue->ctrl->phase != HOST_CTRL_CONNECTING)
		return;
	if (queue->qid == 0)
		host_setup_start(queue->ctrl);
	else
		host_setup_on_io_ready(queue);
}

void host_ctrl_on_queue_closed(struct host_queue *queue, int cause, const char *why)
{
	struct host_ctrl *ctrl = queue->ctrl;
	struct host_error error;

	CHECK(ctrl->open_queues > 0);
	ctrl->open_queues--;
	/* During a shutdown the controller may close its I/O queues before it is done. */
	if (ctrl->phase != HOST_CTRL_SHUTDOWN || queue->qid == 0) {
		host_error_from_close(&error, queue, cause, why);
		host_ctrl_fail(ctrl, cause != 0 ? cause : -ECONNRESET, &error);
	}
	reactor_defer(ctrl->reactor, &ctrl->settle);
}

static void config_set_defaults(struct host_config *config)
{
	if (config->addr.transport == NULL)
		config->addr.transport = &host_transport_tcp;
	if (config->io_queue_size == 0)
		config->io_queue_size = HOST_IO_QUEUE_SIZE;
	if (config->io_queue_size < 2)
		config->io_queue_size = 2;
	if (config->io_queues > HOST_IO_QUEUES_MAX)
		config->io_queues = HOST_IO_QUEUES_MAX;
	if (config->connect_timeout_ms == 0)
		config->connect_timeout_ms = HOST_CONNECT_TIMEOUT_MS;
	if (config->command_timeout_ms == 0)
		config->command_timeout_ms = HOST_COMMAND_TIMEOUT_MS;
}

int host_connect(struct reactor *reactor, const struct host_config *config,
		 const struct host_callbacks *callbacks, void *arg, struct host_ctrl **ret_ctrl)
{
	struct host_ctrl *ctrl = calloc(1, sizeof(*ctrl));
	int res;

	CHECK(callbacks->connected != NULL);
	if (ctrl == NULL)
		return -ENOMEM;
	ctrl->reactor = reactor;
	ctrl->config = *config;
	config_set_defaults(&ctrl->config);
	ctrl->callbacks = *callbacks;
	ctrl->arg = arg;
	ctrl->cntlid = NVME_CNTLID_ANY;
	list_init(&ctrl->orphans);
	reactor_defer_init(&ctrl->settle, ctrl_settle);
	host_setup_init_timers(ctrl);
	host_watch_init(ctrl);
	ctrl->page = calloc(1, NVME_PAGE_BYTES);
	res = ctrl->page != NULL ? host_queue_create(ctrl, 0, HOST_ADMIN_QUEUE_SIZE, &ctrl->admin)
				 : -ENOMEM;
	if (res == 0) {
		ctrl->admin->reserved_slots = HOST_ADMIN_RESERVED_SLOTS;
		ctrl->admin->in_capsule_max_bytes = HOST_ADMIN_IN_CAPSULE_BYTES;
		res = host_queue_open(ctrl->admin);
	}
	if (res != 0) {
		ctrl_free(ctrl);
		return res;
	}
	reactor_timer_arm(&ctrl->setup_timer,
			  reactor_now_ns(reactor) + ctrl->config.connect_timeout_ms * 1000000ull);
	*ret_ctrl = ctrl;
	return 0;
}

static void ctrl_release(struct host_ctrl *ctrl, void (*gone)(void *arg), void *arg)
{
	CHECK_OWNER(ctrl);
	CHECK(!ctrl->is_released && !ctrl->is_in_callback);
	ctrl->is_released = true;
	ctrl->gone = gone;
	ctrl->gone_arg = arg;
}

void host_disconnect(struct host_ctrl *ctrl, void (*gone)(void *arg), void *arg)
{
	static const struct host_error by_caller = {.text = "disconnected by the caller"};

	ctrl_release(ctrl, gone, arg);
	if (ctrl->phase == HOST_CTRL_LIVE)
		host_shutdown_start(ctrl);
	else if (ctrl->phase == HOST_CTRL_CONNECTING)
		host_ctrl_fail(ctrl, -ECANCELED, &by_caller);
	else
		reactor_defer(ctrl->reactor, &ctrl->settle);
}

void host_abandon(struct host_ctrl *ctrl, void (*gone)(void *arg), void *arg)
{
	static const struct host_error by_caller = {.text = "abandoned by the caller"};

	ctrl_release(ctrl, gone, arg);
	host_ctrl_fail(ctrl, -ECANCELED, &by_caller);
	reactor_defer(ctrl->reactor, &ctrl->settle);
}

const struct ctrl_identity *host_ctrl_identity(const struct host_ctrl *ctrl)
{
	return &ctrl->identity;
}

uint16_t host_ctrl_cntlid(const struct host_ctrl *ctrl)
{
	return ctrl->cntlid;
}

bool host_ctrl_is_live(const struct host_ctrl *ctrl)
{
	return ctrl->phase == HOST_CTRL_LIVE;
}

unsigned host_ctrl_io_queues(const struct host_ctrl *ctrl)
{
	return ctrl->io_queue_count;
}

unsigned host_ctrl_io_depth(const struct host_ctrl *ctrl)
{
	return ctrl->io_queue_size > 0 ? ctrl->io_queue_size - 1 : 0;
}

uint32_t host_ctrl_transfer_max_bytes(const struct host_ctrl *ctrl)
{
	return ctrl->identity.transfer_max_bytes != 0 ? ctrl->identity.transfer_max_bytes
						      : UINT32_MAX;
}

void host_submit_admin(struct host_ctrl *ctrl, struct host_cmd *cmd)
{
	CHECK_OWNER(ctrl);
	CHECK(ctrl->was_connected);
	host_queue_submit(ctrl->admin, cmd, ctrl->config.command_timeout_ms, false);
}

void host_submit_io(struct host_ctrl *ctrl, unsigned queue, struct host_cmd *cmd)
{
	CHECK_OWNER(ctrl);
	CHECK(ctrl->was_connected && queue < ctrl->io_queue_count);
	host_queue_submit(ctrl->io[queue], cmd, ctrl->config.command_timeout_ms, false);
}

void host_cmd_forget(struct host_ctrl *ctrl, unsigned queue, struct host_cmd *cmd)
{
	CHECK_OWNER(ctrl);
	CHECK(queue < ctrl->io_queue_count);
	host_queue_forget(ctrl->io[queue], cmd);
}

void host_ctrl_queue_stats(const struct host_ctrl *ctrl, unsigned queue,
			   struct host_queue_stats *ret_stats)
{
	CHECK_OWNER(ctrl);
	CHECK(queue < ctrl->io_queue_count);
	host_queue_stats(ctrl->io[queue], ret_stats);
}

uint64_t host_ctrl_last_sent_ns(const struct host_ctrl *ctrl)
{
	uint64_t last_ns = ctrl->closed_ns;

	if (ctrl->admin->sent_ns > last_ns)
		last_ns = ctrl->admin->sent_ns;
	for (unsigned i = 0; ctrl->io != NULL && i < ctrl->io_queue_count; i++)
		if (ctrl->io[i] != NULL && ctrl->io[i]->sent_ns > last_ns)
			last_ns = ctrl->io[i]->sent_ns;
	return last_ns;
}

uint32_t host_ctrl_kato_ms(const struct host_ctrl *ctrl)
{
	uint64_t step_ms = ctrl->identity.keep_alive_step_ms;
	uint64_t kato_ms = ctrl->config.kato_ms;

	if (step_ms > 0)
		kato_ms = (kato_ms + step_ms - 1) / step_ms * step_ms;
	if (ctrl->identity.has_traffic_keep_alive)
		kato_ms *= 2;
	return kato_ms > UINT32_MAX ? UINT32_MAX : (uint32_t)kato_ms;
}
