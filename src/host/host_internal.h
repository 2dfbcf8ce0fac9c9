/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the host side share: a controller and what they call of each other; queues and
 * slots are in host_transport.h. All of it belongs to the reactor given to host_connect and is
 * touched only by its thread.
 *
 * A queue of N entries has N - 1 slots, because a submission queue must never look full; the
 * index of the slot is the CID. A command is at one of three places: a slot, the waiting list of
 * its queue, or the orphan list of the controller (submitted when the queue had ended already).
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
	HOST_CTRL_SHUTDOWN, /* host_disconnect: the controller is told */
	HOST_CTRL_ENDING,   /* connections are being closed */
	HOST_CTRL_LOST,     /* all is closed; waits for host_disconnect */
};

struct host_ctrl {
	struct reactor *reactor;
	struct host_config config;
	struct host_callbacks callbacks;
	void *arg;
	enum host_ctrl_phase phase;
	bool was_connected;
	bool is_in_callback; /* the last `connected`: the caller may not free what we free */
	int end_result;
	struct host_error error;
	void (*gone)(void *arg);
	void *gone_arg;
	bool is_released; /* host_disconnect or host_abandon was called */

	unsigned step; /* of host_setup.c */
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
	struct host_queue **io; /* io_queue_count */
	unsigned open_queues;   /* with a connection whose on_closed has not come */
	uint64_t closed_ns;     /* when the last one ended; 0: none */
	struct list orphans;
	struct reactor_defer settle; /* completes orphans, then the next stage of the end */

	struct reactor_timer setup_timer; /* the whole of host_connect, or of the shutdown */
	struct reactor_timer poll_timer;  /* between two looks at CSTS */
	struct reactor_timer watch_timer; /* command time-outs; armed while one is possible */
	bool is_watched;
	struct reactor_timer keep_alive_timer;
	struct host_cmd keep_alive_cmd;
	bool is_keep_alive_busy;
	struct reactor_timer silence_timer; /* armed while an answer is owed */
	uint64_t silence_floor_ns;          /* what is silent from before does not count */
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
/* timeout_ms 0: none. is_own: one of the controller's own commands. */
void host_queue_submit(struct host_queue *queue, struct host_cmd *cmd, uint32_t timeout_ms,
		       bool is_own);
/* The answer of cmd is not wanted any more; the slot drains by itself. */
void host_queue_forget(struct host_queue *queue, struct host_cmd *cmd);
/* Commands in slots that have to be answered some time. */
uint32_t host_queue_owed(const struct host_queue *queue);
/* When the oldest of them was sent; 0: there is none. */
uint64_t host_queue_oldest_ns(const struct host_queue *queue);
void host_queue_stats(struct host_queue *queue, struct host_queue_stats *ret_stats);
/* The slot whose time is over, or NULL; *is_waiting is set when there are others that have one. */
const struct host_slot *host_queue_find_late(const struct host_queue *queue, uint64_t now_ns,
					     bool *is_waiting);

/* host_ctrl.c */
void host_ctrl_on_queue_ready(struct host_queue *queue);
void host_ctrl_on_queue_closed(struct host_queue *queue, int cause, const char *why);
/* Ends the controller; only the first cause counts. error->text is filled by the caller. */
void host_ctrl_fail(struct host_ctrl *ctrl, int res, const struct host_error *error);
/* Completes cmd with this status at the end of the turn. */
void host_ctrl_orphan(struct host_ctrl *ctrl, struct host_cmd *cmd, nvme_status status);
void host_ctrl_close_queues(struct host_ctrl *ctrl, bool is_orderly, const char *why);

/* host_setup.c */
void host_setup_start(struct host_ctrl *ctrl);
void host_setup_on_io_ready(struct host_queue *queue);
/* What host_connect is doing now, for the error text. */
const char *host_setup_step_name(const struct host_ctrl *ctrl);
void host_setup_init_timers(struct host_ctrl *ctrl);
void host_shutdown_start(struct host_ctrl *ctrl);

/* host_watch.c */
void host_watch_init(struct host_ctrl *ctrl);
void host_watch_start(struct host_ctrl *ctrl);
/* Arms what a command under way needs and what is not armed. */
void host_watch_arm(struct host_ctrl *ctrl);

/* A command goes out that has to be answered. */
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
