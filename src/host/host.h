/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host side, first part: one controller of a subsystem, its admin queue and N I/O queues, all
 * on one reactor and over one transport (host_transport.h). Asynchronous; every callback runs on
 * that reactor. Multipath, reconnect and the public library come on top of this and change nothing
 * here.
 */
#ifndef WEFT_HOST_HOST_H
#define WEFT_HOST_HOST_H

#include "base/net_addr.h"
#include "base/uuid.h"
#include "reactor/reactor.h"
#include "wire/feature.h"
#include "wire/identify.h"
#include "wire/log_page.h"
#include "wire/nvme.h"

struct host_ctrl;
struct host_transport;

struct host_config {
	const struct host_transport *transport; /* NULL: host_transport_tcp */
	struct net_addr addr;
	char subsystem_nqn[NVME_NQN_BYTES];
	char host_nqn[NVME_NQN_BYTES];
	struct uuid host_id;
	unsigned io_queues;     /* 0 for a discovery controller */
	unsigned io_queue_size; /* entries; 128 when 0; lowered to CAP.MQES */
	uint32_t kato_ms;       /* 0: no keep alive */
	bool wants_header_digest;
	bool wants_data_digest;
	bool wants_sq_flow_control;  /* default is to disable it, which allows the SUCCESS flag */
	uint32_t connect_timeout_ms; /* for the whole of host_connect; 10 s when 0 */
	uint32_t command_timeout_ms; /* then the controller is failed; 30 s when 0 */
	uint32_t silence_timeout_ms; /* see host/timeouts.h; 0: off */
	uint32_t unacked_timeout_ms; /* TCP_USER_TIMEOUT; 0: the kernel's own */
	/* Writes of so many bytes leave without a copy, until the kernel reports that it copies
	 * all the same. */
	uint32_t zero_copy_min_bytes;
};

/* Why a connection failed, for people: names the step, the status and the remedy. */
struct host_error {
	char text[512];
	nvme_status status; /* when the controller said no */
};

struct host_callbacks {
	/* res 0: connected, enabled and identified. Else the controller is gone (host_ctrl is
	 * freed after the callback) and error says why. */
	void (*connected)(struct host_ctrl *ctrl, void *arg, int res,
			  const struct host_error *error);
	/* The controller was lost after it was connected; all commands have been completed with
	 * NVME_SC_HOST_PATHING_ERROR, and the kernel needs none of their buffers any more. Call
	 * host_disconnect to free it. May be NULL. */
	void (*lost)(struct host_ctrl *ctrl, void *arg, const struct host_error *error);
	/* An asynchronous event; the next one has been asked for already. May be NULL. */
	void (*event)(struct host_ctrl *ctrl, void *arg, const struct async_event *event);
};

/* 0 or -ENOMEM; connected follows, never from inside this call. */
int host_connect(struct reactor *reactor, const struct host_config *config,
		 const struct host_callbacks *callbacks, void *arg, struct host_ctrl **ret_ctrl);
/* Shuts the controller down (CC.SHN) if it is alive, closes all, frees; `gone` is the last
 * callback. No command may be outstanding that the caller still cares about. */
void host_disconnect(struct host_ctrl *ctrl, void (*gone)(void *arg), void *arg);
/* As after a power cut of the host: no shutdown, connections reset. For tests. */
void host_abandon(struct host_ctrl *ctrl, void (*gone)(void *arg), void *arg);

const struct ctrl_identity *host_ctrl_identity(const struct host_ctrl *ctrl);
uint16_t host_ctrl_cntlid(const struct host_ctrl *ctrl);
/* Connected, and nothing says yet that it is lost or leaves. */
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

/* One command, embedded in the caller's object, busy from submit until done. */
struct host_cmd {
	struct nvme_sqe sqe; /* opcode, NSID and CDWs; CID and SGL are filled in */
	enum host_data_direction direction;
	void *data; /* data_bytes; stays valid until done */
	uint32_t data_bytes;
	/* Instead of data, when iov_count is not 0: pieces of data_bytes in all. The array stays
	 * valid too. Pieces may be of any length, also 0. */
	const struct iovec *iov;
	unsigned iov_count;
	/* The second of a fused pair, which follows this one on its queue at once, with nothing
	 * between; NULL: none. Only the first is submitted; the FUSE bits of both are set for the
	 * caller. Both are done by themselves. A queue of less than two slots answers both with
	 * Command Aborted due to Missing Fused Command. */
	struct host_cmd *fused_next;
	void (*done)(struct host_cmd *cmd);
	/* Valid in done. */
	nvme_status status;
	uint64_t result; /* DW0 and DW1 */
	uint64_t started_ns;
	/* With NVME_SC_HOST_PATHING_ERROR: some of its bytes went to the kernel, so that the
	 * controller may have run it, or may run it still. True of every command that was answered:
	 * a controller may lie and send that status itself. */
	bool may_have_run;
	/* The queue's. */
	struct list node;
	uint32_t slot_index; /* HOST_NO_SLOT: not sent yet, or over */
};

/* Never fails from inside; waits when the queue is full; done is not called from inside. */
void host_submit_admin(struct host_ctrl *ctrl, struct host_cmd *cmd);
/* queue: 0 .. io_queues - 1. */
void host_submit_io(struct host_ctrl *ctrl, unsigned queue, struct host_cmd *cmd);

/*
 * The caller wants the answer of this read no more: its buffer and cmd are the caller's again on
 * return, `done` does not come, and what the controller still sends for it is thrown away. Only for
 * commands that read data and that are on an I/O queue.
 */
void host_cmd_forget(struct host_ctrl *ctrl, unsigned queue, struct host_cmd *cmd);

/* What one I/O queue does now. Costs a look at each slot, and now and then a system call. */
struct host_queue_stats {
	uint32_t in_flight;
	uint32_t waiting;   /* for a slot */
	uint64_t commands;  /* answered */
	uint64_t oldest_ns; /* when the oldest command in flight was sent; 0: none */
	uint64_t heard_ns;  /* when the last byte came */
	uint64_t rtt_ns;    /* of the transport, at most 100 ms old; 0: unknown */
};
void host_ctrl_queue_stats(const struct host_ctrl *ctrl, unsigned queue,
			   struct host_queue_stats *ret_stats);
/*
 * When the last byte of anything can have left for this controller. While it is live: when it was
 * given to the kernel. In `lost` and later: when the last connection was reset, because until then
 * the kernel repeats what was not acknowledged. Its KATO has begun by then at the latest, but for
 * the time that a packet is on its way.
 */
uint64_t host_ctrl_last_sent_ns(const struct host_ctrl *ctrl);
/*
 * How long the controller lives after the last command that it got; 0: for ever. KATO, rounded up
 * to the step of the controller (KAS), and twice that when it counts traffic (TBKAS), because then
 * it looks once in KATO whether there was any. Base 2.1, section 3.9.
 */
uint32_t host_ctrl_kato_ms(const struct host_ctrl *ctrl);

/* Fillers for the NVM command set; block units. */
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
/* Cross-Controller Reset of the controller that had these when it was identified. */
void host_cmd_ctrl_reset(struct host_cmd *cmd, uint16_t cntlid, uint8_t uniquifier,
			 uint64_t random_number);

#endif
