/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of the host side: a controller, and the functions that the files call of each
 * other. Queues and slots are in host_transport.h. All of it belongs to the reactor given to
 * host_connect and is touched only by that reactor's thread.
 *
 * A queue of N entries has N - 1 slots, because a submission queue must never look full. The index
 * of the slot is the CID. A command is at one of three places: a slot, the waiting list of its
 * queue, or the orphan list of the controller (submitted after the queue had ended).
 */
#ifndef WEFT_HOST_HOST_INTERNAL_H
#define WEFT_HOST_HOST_INTERNAL_H

#include "host/host_transport.h"

#define HOST_ADMIN_QUEUE_SIZE       32
#define HOST_ADMIN_RESERVED_SLOTS   3 /* setup or shutdown, keep alive, asynchronous event */
#define HOST_ADMIN_IN_CAPSULE_BYTES 8192
#define HOST_IO_QUEUE_SIZE          128
#define HOST_IO_QUEUES_MAX          256
#define HOST_CONNECT_TIMEOUT_MS     10000
#define HOST_COMMAND_TIMEOUT_MS     30000
#define HOST_SHUTDOWN_TIMEOUT_MS    2000
#define HOST_READY_POLL_MS          5

enum host_ctrl_phase {
	HOST_CTRL_CONNECTING,
	HOST_CTRL_LIVE,
	HOST_CTRL_SHUTDOWN, /* host_disconnect: shutdown is in progress */
	HOST_CTRL_ENDING,   /* connections are being closed */
	HOST_CTRL_LOST,     /* all connections are closed; waits for host_disconnect */
};

struct host_ctrl {
	struct reactor *reactor;
	struct host_config config;
	struct host_callbacks callbacks;
	void *arg;
	enum host_ctrl_phase phase;
	bool was_connected;
	bool is_in_callback; /* in the final `connected`: the caller must not free the controller */
	int end_result;
	struct host_error error;
	void (*gone)(void *arg);
	void *gone_arg;
	bool is_released; /* host_disconnect or host_abandon was called */

	unsigned step; /* index into the step table of host_setup.c */
	struct host_cmd step_cmd;
	uint8_t *page; /* NVME_PAGE_BYTES for Identify */
	uint64_t ready_deadline_ns;
	struct ctrl_capabilities cap;
	uint32_t version;
	struct ctrl_config cc;
	struct ctrl_identity identity;
	uint16_t cntlid;
	uint32_t io_queue_size;
	unsigned io_queue_count;
	unsigned io_queues_connected;

	struct host_queue *admin;
	struct host_queue **io; /* io_queue_count entries */
	unsigned open_queues;   /* queues whose connection has not reported on_closed yet */
	uint64_t closed_ns;     /* when the last connection was closed; 0: none was */
	struct list orphans;
	struct reactor_defer settle; /* completes the orphans, then the next stage of the end */

	struct reactor_timer setup_timer; /* limits all of host_connect, or the shutdown */
	struct reactor_timer poll_timer;  /* until the next read of CSTS */
	struct reactor_timer watch_timer; /* armed while a command can time out */
	bool is_watched;
	struct reactor_timer keep_alive_timer;
	struct host_cmd keep_alive_cmd;
	bool is_keep_alive_busy;
	struct reactor_timer silence_timer; /* armed while an answer is owed */
	uint64_t silence_floor_ns;          /* silence before this time does not count */
	uint64_t commands_sent;
	uint64_t commands_at_last_tick;
	struct host_cmd event_cmd;
};

/* host_queue.c */
int host_queue_create(struct host_ctrl *ctrl, uint16_t qid, uint32_t size,
		      struct host_queue **ret_queue);
void host_queue_destroy(struct host_queue *queue);
int host_queue_open(struct host_queue *queue);
void host_queue_close(struct host_queue *queue, bool is_orderly, const char *why);
/* timeout_ms 0: no time-out. is_own: one of the controller's own commands. */
void host_queue_submit(struct host_queue *queue, struct host_cmd *cmd, uint32_t timeout_ms,
		       bool is_own);
/* The caller no longer wants the answer of cmd. The slot stays taken until the controller has
 * answered. */
void host_queue_forget(struct host_queue *queue, struct host_cmd *cmd);
/* Number of commands in slots that the controller must answer in a limited time. */
uint32_t host_queue_owed(const struct host_queue *queue);
/* When the oldest of these commands was sent; 0: no such command. */
uint64_t host_queue_oldest_ns(const struct host_queue *queue);
void host_queue_stats(struct host_queue *queue, struct host_queue_stats *ret_stats);
/* The first slot whose command has timed out, or NULL. Sets *is_waiting if a command can still time
 * out. */
const struct host_slot *host_queue_find_late(const struct host_queue *queue, uint64_t now_ns,
					     bool *is_waiting);

/* host_ctrl.c */
void host_ctrl_on_queue_ready(struct host_queue *queue);
void host_ctrl_on_queue_closed(struct host_queue *queue, int cause, const char *why);
/* Ends the controller. Only the first cause counts. The caller fills in error->text. */
void host_ctrl_fail(struct host_ctrl *ctrl, int res, const struct host_error *error);
/* Completes cmd with this status at the end of the turn. */
void host_ctrl_orphan(struct host_ctrl *ctrl, struct host_cmd *cmd, nvme_status status);
void host_ctrl_close_queues(struct host_ctrl *ctrl, bool is_orderly, const char *why);

/* host_setup.c */
void host_setup_start(struct host_ctrl *ctrl);
void host_setup_on_io_ready(struct host_queue *queue);
/* The present step of host_connect, for error texts. */
const char *host_setup_step_name(const struct host_ctrl *ctrl);
void host_setup_init_timers(struct host_ctrl *ctrl);
void host_shutdown_start(struct host_ctrl *ctrl);

/* host_watch.c */
void host_watch_init(struct host_ctrl *ctrl);
void host_watch_start(struct host_ctrl *ctrl);
/* Arms the timers that a command in flight needs and that are not armed. */
void host_watch_arm(struct host_ctrl *ctrl);

/* Call when sending a command that must be answered in a limited time. */
static inline void host_watch_command(struct host_ctrl *ctrl)
{
	if (!ctrl->watch_timer.armed ||
	    (ctrl->config.silence_timeout_ms > 0 && !ctrl->silence_timer.armed))
		host_watch_arm(ctrl);
}
void host_watch_start_live(struct host_ctrl *ctrl);
void host_watch_stop(struct host_ctrl *ctrl);

/* host_error.c */
void host_error_format(struct host_error *error, nvme_status status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void host_error_from_close(struct host_error *error, const struct host_queue *queue, int cause,
			   const char *why);
void host_error_from_connect(struct host_error *error, const struct host_queue *queue,
			     nvme_status status, uint32_t dw0);

#endif
