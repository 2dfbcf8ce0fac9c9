/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lower half of the host side: one controller of a subsystem, its admin queue and N I/O queues,
 * all on one reactor and over one transport (host_transport.h). Asynchronous; every callback runs
 * on that reactor. Multipath, reconnect and the public library are built on this interface.
 */
#ifndef WEFT_HOST_HOST_H
#define WEFT_HOST_HOST_H

#include "base/uuid.h"
#include "host/host_addr.h"
#include "reactor/reactor.h"
#include "wire/feature.h"
#include "wire/identify.h"
#include "wire/log_page.h"
#include "wire/nvme.h"

struct host_ctrl;

struct host_config {
	struct host_addr addr;
	char subsystem_nqn[NVME_NQN_BYTES];
	char host_nqn[NVME_NQN_BYTES];
	struct uuid host_id;
	unsigned io_queues;     /* 0 for a discovery controller */
	unsigned io_queue_size; /* entries; 0: 128; lowered to CAP.MQES */
	uint32_t kato_ms;       /* 0: no Keep Alive */
	bool wants_header_digest;
	bool wants_data_digest;
	bool wants_sq_flow_control;  /* default: off, which allows the SUCCESS flag */
	uint32_t connect_timeout_ms; /* limit for all of host_connect; 0: 10 s */
	uint32_t command_timeout_ms; /* a command that takes longer fails the controller; 0: 30 s */
	uint32_t silence_timeout_ms; /* see host/timeouts.h; 0: off */
	uint32_t unacked_timeout_ms; /* TCP_USER_TIMEOUT; 0: the kernel's default */
	/* Smallest write that is sent without a copy, until the kernel reports that it copies
	 * anyway. 0: never. */
	uint32_t zero_copy_min_bytes;
};

/* Why a connection failed, for people: the text names the step, the status and the remedy. */
struct host_error {
	char text[512];
	nvme_status status; /* of the controller's refusal */
};

struct host_callbacks {
	/* res 0: the controller is connected, enabled and identified. Otherwise the controller is
	 * gone: host_ctrl is freed after the callback, and error names the cause. */
	void (*connected)(struct host_ctrl *ctrl, void *arg, int res,
			  const struct host_error *error);
	/* The controller was lost after it was connected. All commands have been completed with
	 * NVME_SC_HOST_PATHING_ERROR, and the kernel no longer uses their buffers. Call
	 * host_disconnect to free the controller. May be NULL. */
	void (*lost)(struct host_ctrl *ctrl, void *arg, const struct host_error *error);
	/* An asynchronous event. The next Asynchronous Event Request has been sent already. May be
	 * NULL. */
	void (*event)(struct host_ctrl *ctrl, void *arg, const struct async_event *event);
};

/* Starts to connect. 0 or -ENOMEM. `connected` follows, never from inside this call. */
int host_connect(struct reactor *reactor, const struct host_config *config,
		 const struct host_callbacks *callbacks, void *arg, struct host_ctrl **ret_ctrl);
/* Shuts the controller down (CC.SHN) if it is live, closes its connections and frees it. `gone` is
 * the last callback. No command whose result the caller still needs may be in flight. */
void host_disconnect(struct host_ctrl *ctrl, void (*gone)(void *arg), void *arg);
/* Like a power cut of the host: resets the connections without a shutdown. For tests, and for a
 * controller that the caller gives up. */
void host_abandon(struct host_ctrl *ctrl, void (*gone)(void *arg), void *arg);

const struct ctrl_identity *host_ctrl_identity(const struct host_ctrl *ctrl);
uint16_t host_ctrl_cntlid(const struct host_ctrl *ctrl);
/* True from `connected` until the controller is lost, fails or is disconnected. */
bool host_ctrl_is_live(const struct host_ctrl *ctrl);
unsigned host_ctrl_io_queues(const struct host_ctrl *ctrl);
/* Commands one I/O queue can hold at once. */
unsigned host_ctrl_io_depth(const struct host_ctrl *ctrl);
/* Most bytes one command may move. */
uint32_t host_ctrl_transfer_max_bytes(const struct host_ctrl *ctrl);

enum host_data_direction {
	HOST_DATA_NONE,
	HOST_DATA_TO_CTRL,
	HOST_DATA_FROM_CTRL,
};

#define HOST_NO_SLOT UINT32_MAX

/* One command, embedded in the caller's object. The queue owns the command from submit until
 * done. */
struct host_cmd {
	struct nvme_sqe sqe; /* opcode, NSID and CDWs; the queue fills in CID, the transport SGL */
	enum host_data_direction direction;
	void *data; /* data_bytes long; must stay valid until done */
	uint32_t data_bytes;
	/* If iov_count is not 0: pieces of data_bytes in total, used instead of data. The array
	 * must stay valid until done. A piece may have any length, including 0. */
	const struct iovec *iov;
	unsigned iov_count;
	/* The second command of a fused pair, which is sent right after the first on the same
	 * queue. NULL: none. Only the first is submitted. The queue sets the FUSE bits of both.
	 * Each command has its own done. A queue of less than two slots completes both with Command
	 * Aborted due to Missing Fused Command. */
	struct host_cmd *fused_next;
	void (*done)(struct host_cmd *cmd);
	/* Valid in done. */
	nvme_status status;
	uint64_t result; /* DW0 and DW1 of the completion */
	uint64_t started_ns;
	/* With NVME_SC_HOST_PATHING_ERROR: some bytes of the command went to the kernel, so the
	 * controller may have run the command, or may still run it. Also set for every answered
	 * command, because a faulty controller may send that status itself. */
	bool may_have_run;
	/* Used by the queue only. */
	struct list node;
	uint32_t slot_index; /* HOST_NO_SLOT: not sent yet, or completed */
};

/* Submits a command. Errors are reported through done, never from inside this call. When the queue
 * is full, the command waits. */
void host_submit_admin(struct host_ctrl *ctrl, struct host_cmd *cmd);
/* As host_submit_admin. queue: 0 to io_queues - 1. */
void host_submit_io(struct host_ctrl *ctrl, unsigned queue, struct host_cmd *cmd);

/*
 * Drops a read: on return cmd and its buffer belong to the caller again. `done` is not called, and
 * late data is discarded. Only for commands on an I/O queue that read data.
 */
void host_cmd_forget(struct host_ctrl *ctrl, unsigned queue, struct host_cmd *cmd);

/* Present state of one I/O queue. Reading it visits each slot and sometimes makes a system call. */
struct host_queue_stats {
	uint32_t in_flight;
	uint32_t waiting;   /* commands that wait for a slot */
	uint64_t commands;  /* answered commands */
	uint64_t oldest_ns; /* when the oldest command in flight was sent; 0: none */
	uint64_t heard_ns;  /* when the last byte was received */
	uint64_t rtt_ns;    /* round trip of the transport, at most 100 ms old; 0: unknown */
};
void host_ctrl_queue_stats(const struct host_ctrl *ctrl, unsigned queue,
			   struct host_queue_stats *ret_stats);
/*
 * An upper limit for the time at which the last byte can have left for this controller. While the
 * controller is live: when the last byte was given to the kernel. In `lost` and later: when the
 * last connection was reset, because until then the kernel retransmits unacknowledged bytes. The
 * controller's KATO begins at that time at the latest, plus the travel time of a packet.
 */
uint64_t host_ctrl_last_sent_ns(const struct host_ctrl *ctrl);
/*
 * Time in ms from the last command that the controller received until it ends itself; 0: it never
 * does. KATO, rounded up to the controller's granularity (KAS). Doubled when the controller counts
 * traffic (TBKAS), because it then checks for traffic only once in each KATO. Base 2.1,
 * section 3.9.
 */
uint32_t host_ctrl_kato_ms(const struct host_ctrl *ctrl);

/* These functions fill in a command of the NVM command set. Offsets and lengths are blocks. */
void host_cmd_read(struct host_cmd *cmd, uint32_t nsid, uint64_t first_block, uint32_t block_count,
		   void *data, uint32_t data_bytes);
void host_cmd_write(struct host_cmd *cmd, uint32_t nsid, uint64_t first_block, uint32_t block_count,
		    const void *data, uint32_t data_bytes);
void host_cmd_compare(struct host_cmd *cmd, uint32_t nsid, uint64_t first_block,
		      uint32_t block_count, const void *data, uint32_t data_bytes);
void host_cmd_set_fua(struct host_cmd *cmd);
void host_cmd_flush(struct host_cmd *cmd, uint32_t nsid);
void host_cmd_write_zeroes(struct host_cmd *cmd, uint32_t nsid, uint64_t first_block,
			   uint32_t block_count, bool wants_deallocate);
/* data: range_count ranges encoded by dsm_range_encode. */
void host_cmd_deallocate(struct host_cmd *cmd, uint32_t nsid, const void *data,
			 uint32_t range_count);
/* page: NVME_PAGE_BYTES. */
void host_cmd_identify(struct host_cmd *cmd, uint32_t nsid, uint8_t cns, void *page);
void host_cmd_log(struct host_cmd *cmd, uint32_t nsid, uint8_t log_id, uint64_t offset, void *data,
		  uint32_t data_bytes);
void host_cmd_abort(struct host_cmd *cmd, uint16_t sqid, uint16_t cid);
/* Cross-Controller Reset of the controller that reported these values in Identify Controller. */
void host_cmd_ctrl_reset(struct host_cmd *cmd, uint16_t cntlid, uint8_t uniquifier,
			 uint64_t random_number);

#endif
