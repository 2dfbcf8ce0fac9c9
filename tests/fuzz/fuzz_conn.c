/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes a whole target through three connections at once, on the simulated reactor: hosts that
 * send anything, before and after Connect.
 *
 * Input: a byte of switches (digests, whether the connections start initialised, connected and
 * enabled), then steps: each is a byte that chooses one of enum step, and the bytes that the step
 * takes. At the end everything is closed. Checked: no crash, hang or leak, and every PDU that the
 * target sends is well formed (fuzz_ear.h). One thread. In-band authentication, when implemented,
 * adds steps between Connect and the first other command.
 */
#include "fuzz_ear.h"
#include "fuzz_script.h"

#include "base/log.h"
#include "base/text.h"
#include "discovery/discovery.h"
#include "target/manage.h"
#include "target/target.h"
#include "wire/copy.h"
#include "wire/fabrics.h"
#include "wire/io_cmd.h"
#include "wire/pdu.h"
#include "wire/reservation.h"
#include "wire/sgl.h"

#define CONNS       3
#define BLOCKS      64
#define BLOCK_SHIFT 9

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

enum step {
	STEP_RAW,
	STEP_IC_REQ,
	STEP_CONNECT_ADMIN,
	STEP_ENABLE,
	STEP_CONNECT_IO,
	STEP_COMMAND, /* 64 bytes of the input */
	STEP_IO,      /* a well-formed I/O command */
	STEP_DATA,    /* H2CData with any fields */
	STEP_DATA_FITTING,
	STEP_TIME,
	STEP_CLOSE,
	STEP_RESET,
	STEP_SWITCH, /* to the next connection */
	STEP_DEAF,   /* stops receiving, or starts again */
	STEP_SWAP,   /* a change of configuration */
	STEP_R2T,    /* data for an R2T, right or with one field wrong */
	STEP_ADMIN,  /* a command in a few bytes */
	STEP_IC_ANY,
	STEP_TERM,
	STEP_SPOIL, /* the next data digest is wrong */
	STEP_COUNT,
};

enum fuzz_switch {
	SWITCH_HDGST = 1,
	SWITCH_DDGST = 2,
	SWITCH_READY = 4, /* admin and one I/O queue connected first */
	SWITCH_SLOW = 8,  /* a slow medium */
	SWITCH_DISCOVERY = 16,
	SWITCH_TWO_REACTORS = 32,
};

struct fuzz {
	struct script script;
	struct sim *sim;
	struct reactor *control;
	struct reactor *data[2];
	struct reactor *host;
	struct net_addr addr;
	struct target *target;
	struct ns_backing *backing;
	struct peer peers[CONNS];
	struct ear ears[CONNS];
	unsigned now; /* connection that the steps use */
	unsigned switches;
	uint16_t cid;
	uint32_t data_bytes; /* of the last write */
	unsigned kept_count;
	bool spoils_digest;
	bool is_read_only;
	bool is_applying;
	bool is_stopped;
};

/* ---- the target ------------------------------------------------------------------------------ */

static void *made(size_t bytes)
{
	void *memory = calloc(1, bytes);

	CHECK(memory != NULL);
	return memory;
}

static struct snapshot *snapshot_build(struct fuzz *fuzz)
{
	struct snapshot *snapshot = snapshot_create();
	struct subsystem *subsystem = made(sizeof(*subsystem));

	CHECK(snapshot != NULL);
	snapshot->limits.data_timeout_ms = 2000;
	snapshot->subsystem_count = 1;
	snapshot->subsystems = made(sizeof(*snapshot->subsystems));
	snapshot->subsystems[0] = subsystem;
	text_copy(subsystem->nqn, sizeof(subsystem->nqn), TARGET_DEFAULT_NQN);
	text_copy(subsystem->serial, sizeof(subsystem->serial), "FUZZ");
	subsystem->allows_any_host = true;
	subsystem->rights_of_all = HOST_RIGHTS_ALL;
	subsystem->ana_group_max = 1;
	subsystem->ns_count = 1;
	subsystem->namespaces = ns_array_create(1);
	CHECK(subsystem->namespaces);
	subsystem->namespaces[0] = (struct ns){
		.nsid = 1,
		.is_read_only = fuzz->is_read_only,
		.ana_group = 1,
	};
	ns_bind(&subsystem->namespaces[0], ns_backing_get(fuzz->backing));
	snapshot->port_count = 1;
	snapshot->ports = made(sizeof(*snapshot->ports));
	snapshot->ports[0].id = 1;
	snapshot->ports[0].listen = fuzz->addr;
	snapshot->ports[0].subsystems = made(sizeof(struct subsystem *));
	snapshot->ports[0].subsystems[0] = subsystem;
	snapshot->ports[0].subsystem_count = 1;
	return snapshot;
}

static void on_applied(void *arg, int res, const char *error)
{
	((struct fuzz *)arg)->is_applying = false;
	CHECK(res == 0);
}

static bool is_applying(void *arg)
{
	return ((struct fuzz *)arg)->is_applying;
}

static void config_apply(struct fuzz *fuzz)
{
	run_while(fuzz->sim, is_applying, fuzz);
	fuzz->is_applying = true;
	sim_enter(fuzz->control);
	target_apply(fuzz->target, snapshot_build(fuzz), on_applied, fuzz);
	sim_leave(fuzz->control);
}

/* A keeper that stores nothing; every eighth time the disk is full. */
static int keep(void *arg, const char *kind, const char *key, const void *value, size_t value_bytes)
{
	return ++((struct fuzz *)arg)->kept_count % 8 == 0 ? -ENOSPC : 0;
}

/* The control reactor accepts every management command and changes nothing. */
static void on_manage(void *arg, struct manage_request *request)
{
	request->status = NVME_SC_SUCCESS;
	manage_done(request);
}

static void target_start(struct fuzz *fuzz)
{
	const char *spec = fuzz->switches & SWITCH_SLOW
				   ? "fault:delay:every=2:ms=50+fail:every=7@mem:32768,block=512"
				   : "mem:32768,block=512";
	struct target_config config = {
		.control = fuzz->control,
		.reactors = fuzz->data,
		.reactor_count = fuzz->switches & SWITCH_TWO_REACTORS ? 2 : 1,
		.discovery_log = discovery_log_read,
		.keeper = {.keep = keep, .arg = fuzz},
		.manage = on_manage,
		.buf_counts = {3, 2, 1},
	};
	struct media_error error;
	struct media *media;

	CHECK(media_open(spec, &media, &error) == 0);
	CHECK(ns_backing_create(media, config.reactor_count, &fuzz->backing) == 0);
	sim_enter(fuzz->control);
	CHECK(target_create(&config, &fuzz->target) == 0);
	sim_leave(fuzz->control);
	config_apply(fuzz);
	run_while(fuzz->sim, is_applying, fuzz);
}

/* ---- what hosts send ------------------------------------------------------------------------ */

static void on_heard(struct peer *peer, const uint8_t *bytes, size_t len_bytes)
{
	ear_hear(peer->owner, bytes, len_bytes);
}

static struct peer *peer_now(struct fuzz *fuzz)
{
	struct peer *peer = &fuzz->peers[fuzz->now];

	if (!peer->is_open) {
		ear_reset(&fuzz->ears[fuzz->now]);
		peer_connect(peer, fuzz->host, &fuzz->addr);
	}
	return peer;
}

static struct pdu_encoding encoding_of(const struct fuzz *fuzz)
{
	const struct pdu_state *agreed = &fuzz->ears[fuzz->now].state;

	return (struct pdu_encoding){
		.has_header_digest = agreed->is_initialized ? agreed->has_header_digest
							    : fuzz->switches & SWITCH_HDGST,
		.has_data_digest = agreed->is_initialized ? agreed->has_data_digest
							  : fuzz->switches & SWITCH_DDGST,
		.data_align_bytes = 4,
	};
}

static void send_payload(struct fuzz *fuzz, const uint8_t *data, size_t data_bytes)
{
	uint32_t digest = htole32(crc32c(data, data_bytes) ^ fuzz->spoils_digest);

	if (data_bytes == 0)
		return;
	fuzz->spoils_digest = false;
	peer_send(peer_now(fuzz), data, data_bytes);
	if (encoding_of(fuzz).has_data_digest)
		peer_send(peer_now(fuzz), &digest, sizeof(digest));
}

static void send_command(struct fuzz *fuzz, struct nvme_sqe *sqe, const uint8_t *data,
			 uint32_t data_bytes)
{
	struct pdu_encoding encoding = encoding_of(fuzz);
	uint8_t hdr[NVME_TCP_HDR_MAX_BYTES];

	sqe->cid = le16_of(fuzz->cid++);
	peer_send(peer_now(fuzz), hdr, pdu_encode_cmd(hdr, &encoding, sqe, data_bytes));
	send_payload(fuzz, data, data_bytes);
}

static void send_ic_req(struct fuzz *fuzz)
{
	uint8_t hdr[NVME_TCP_HDR_MAX_BYTES];
	size_t bytes = pdu_encode_ic_req(hdr, 4, fuzz->switches & SWITCH_HDGST,
					 fuzz->switches & SWITCH_DDGST, 1);

	peer_send(peer_now(fuzz), hdr, bytes);
}

static void send_connect(struct fuzz *fuzz, uint16_t qid, uint32_t size, uint32_t kato_ms)
{
	struct connect_args args = {
		.qid = qid,
		.queue_size = size,
		.kato_ms = kato_ms,
		.wants_no_sq_flow_control = size & 1,
		.cntlid = qid == 0 ? NVME_CNTLID_ANY : 1,
	};
	uint8_t data[NVMF_CONNECT_DATA_BYTES];
	struct nvme_sqe sqe = {0};

	text_copy(args.subsystem_nqn, sizeof(args.subsystem_nqn),
		  fuzz->switches & SWITCH_DISCOVERY ? NVME_DISCOVERY_NQN : TARGET_DEFAULT_NQN);
	text_copy(args.host_nqn, sizeof(args.host_nqn), "nqn.2026-11.io.weft:fuzz");
	uuid_from_name(args.host_nqn, &args.host_id);
	connect_encode(&sqe, data, &args);
	sgl_encode_in_capsule(&sqe, sizeof(data));
	send_command(fuzz, &sqe, data, sizeof(data));
}

static void send_enable(struct fuzz *fuzz, uint32_t flip)
{
	struct ctrl_config config = {
		.is_enabled = true, .page_shift = 12, .sq_entry_shift = 6, .cq_entry_shift = 4};
	struct nvme_sqe sqe = {0};

	property_set_encode(&sqe, PROPERTY_CC, cc_encode(&config) ^ flip, false);
	send_command(fuzz, &sqe, NULL, 0);
}

static void send_fuzzed_command(struct fuzz *fuzz)
{
	uint8_t data[255 * 16];
	struct nvme_sqe sqe;
	uint32_t bytes;

	script_bytes(&fuzz->script, &sqe, sizeof(sqe));
	bytes = script_u8(&fuzz->script) * 16;
	memset(data, 0x5a, bytes);
	sqe.flags = (uint8_t)((sqe.flags & ~NVME_SQE_PSDT_MASK) | NVME_SQE_PSDT_SGL);
	/* Often a valid SGL, so that commands get beyond the check of the SGL. */
	if (sqe.sgl.rsvd[0] & 1)
		sgl_encode_in_capsule(&sqe, bytes);
	else if (sqe.sgl.rsvd[0] & 2)
		sgl_encode_transport(&sqe, le32_get(sqe.sgl.length) & 0xffff);
	send_command(fuzz, &sqe, data, bytes);
}

/* Copy ranges that mostly exist; returns their length in bytes. */
static uint32_t copy_encode(struct fuzz *fuzz, struct nvme_sqe *sqe, const struct io_cmd *cmd,
			    uint8_t *data)
{
	struct copy_cmd copy = {
		.first_block = cmd->first_block,
		.range_count = cmd->block_count,
		.format = script_u8(&fuzz->script) % 3,
		.is_fua = cmd->is_fua,
	};

	for (uint32_t i = 0; i < copy.range_count; i++) {
		struct copy_range range = {
			.nsid = 1,
			.first_block = script_u8(&fuzz->script),
			.block_count = 1 + script_u8(&fuzz->script),
		};

		copy_range_encode(data, i, copy.format, &range);
	}
	copy_cmd_encode(sqe, 1, &copy);
	return copy.range_count * NVME_COPY_RANGE_BYTES;
}

static bool is_reservation(uint8_t opcode)
{
	return opcode == NVME_IO_RESERVATION_REGISTER || opcode == NVME_IO_RESERVATION_ACQUIRE ||
	       opcode == NVME_IO_RESERVATION_RELEASE;
}

/* CDW10 from the script, keys from a few values; returns the length of the data. */
static uint32_t reservation_encode_cmd(struct fuzz *fuzz, struct nvme_sqe *sqe, uint8_t *data)
{
	uint8_t opcode = sqe->opcode;

	*sqe = (struct nvme_sqe){.opcode = opcode, .nsid = le32_of(1)};
	sqe->cdw10 = le32_of(script_u8(&fuzz->script) | (uint32_t)script_u8(&fuzz->script) << 8 |
			     (uint32_t)(script_u8(&fuzz->script) & 3) << 30);
	data[0] = script_u8(&fuzz->script) & 3;
	data[8] = script_u8(&fuzz->script) & 3;
	if (opcode == NVME_IO_RESERVATION_REPORT) {
		sqe->cdw11 = le32_of(data[0] & 1);
		return (le32_get(sqe->cdw10) % 1024 + 1) * 4;
	}
	return opcode == NVME_IO_RESERVATION_RELEASE ? RELEASE_DATA_BYTES : REGISTER_DATA_BYTES;
}

static void send_io(struct fuzz *fuzz)
{
	static const uint8_t opcodes[] = {
		NVME_IO_READ,
		NVME_IO_WRITE,
		NVME_IO_FLUSH,
		NVME_IO_DATASET_MANAGEMENT,
		NVME_IO_COPY,
		NVME_IO_WRITE_UNCORRECTABLE,
		NVME_IO_VERIFY,
		NVME_IO_WRITE_ZEROES,
		NVME_IO_CANCEL,
		NVME_IO_COMPARE,
		NVME_IO_RESERVATION_REGISTER,
		NVME_IO_RESERVATION_ACQUIRE,
		NVME_IO_RESERVATION_RELEASE,
		NVME_IO_RESERVATION_REPORT,
	};
	uint8_t choice = script_u8(&fuzz->script);
	uint8_t opcode = opcodes[choice % ARRAY_LEN(opcodes)];
	struct io_cmd cmd = {
		.first_block = script_u8(&fuzz->script),
		.block_count = 1 + script_u8(&fuzz->script) % 32,
		.is_fua = choice & 64,
	};
	uint32_t bytes = cmd.block_count << BLOCK_SHIFT;
	bool has_data = opcode == NVME_IO_WRITE || opcode == NVME_IO_COMPARE ||
			opcode == NVME_IO_DATASET_MANAGEMENT || opcode == NVME_IO_COPY ||
			opcode == NVME_IO_RESERVATION_REGISTER ||
			opcode == NVME_IO_RESERVATION_ACQUIRE ||
			opcode == NVME_IO_RESERVATION_RELEASE;
	bool is_in_capsule = has_data && (choice & 128) && bytes <= 8192;
	uint8_t data[8192] = {0};
	struct nvme_sqe sqe = {0};

	io_cmd_encode(&sqe, opcode, 1, &cmd);
	if (opcode == NVME_IO_DATASET_MANAGEMENT) {
		struct dsm_cmd dsm = {.range_count = cmd.block_count, .is_deallocate = true};

		dsm_cmd_encode(&sqe, 1, &dsm);
		bytes = dsm.range_count * NVME_DSM_RANGE_BYTES;
		script_bytes(&fuzz->script, data, NVME_DSM_RANGE_BYTES);
	} else if (opcode == NVME_IO_COPY) {
		bytes = copy_encode(fuzz, &sqe, &cmd, data);
	} else if (opcode == NVME_IO_CANCEL) {
		struct cancel_cmd cancel = {
			.sqid = 1,
			.cid = choice & 64 ? CANCEL_CID_ALL : script_u8(&fuzz->script),
			.action = choice & 64 ? CANCEL_MANY : CANCEL_ONE,
		};

		cancel_cmd_encode(&sqe, choice & 128 ? NVME_NSID_ALL : 1, &cancel);
	} else if (opcode == NVME_IO_RESERVATION_REPORT || is_reservation(opcode)) {
		bytes = reservation_encode_cmd(fuzz, &sqe, data);
	}
	fuzz->data_bytes = bytes;
	if (is_in_capsule)
		sgl_encode_in_capsule(&sqe, bytes);
	else if (has_data || opcode == NVME_IO_READ || opcode == NVME_IO_RESERVATION_REPORT)
		sgl_encode_transport(&sqe, bytes);
	else
		sgl_encode_none(&sqe);
	send_command(fuzz, &sqe, data, is_in_capsule ? bytes : 0);
}

static void send_data(struct fuzz *fuzz, bool is_fitting)
{
	struct pdu_encoding encoding = encoding_of(fuzz);
	uint8_t choice = script_u8(&fuzz->script);
	uint8_t hdr[NVME_TCP_HDR_MAX_BYTES];
	static uint8_t data[65536];
	struct pdu_data_args args = {
		.cccid = (uint16_t)(fuzz->cid - 1 - (choice & 3)),
		.ttag = choice >> 4,
		.data_bytes = fuzz->data_bytes,
		.is_last = true,
	};

	if (!is_fitting) {
		args.cccid = script_u16(&fuzz->script);
		args.ttag = script_u16(&fuzz->script);
		args.offset = script_u32(&fuzz->script);
		args.data_bytes = script_u16(&fuzz->script);
		args.is_last = choice & 1;
	}
	if (args.data_bytes == 0)
		args.data_bytes = 1; /* the encoder requires data; STEP_RAW sends none */
	peer_send(peer_now(fuzz), hdr, pdu_encode_h2c_data(hdr, &encoding, &args));
	send_payload(fuzz, data, args.data_bytes);
}

/* Answers an R2T in one piece or two, as requested or with one field wrong. */
static void send_r2t_data(struct fuzz *fuzz)
{
	struct pdu_encoding encoding = encoding_of(fuzz);
	uint8_t choice = script_u8(&fuzz->script);
	uint8_t hdr[NVME_TCP_HDR_MAX_BYTES];
	static const uint8_t data[128 * 1024];
	struct pdu_data_args args;
	struct ear_r2t r2t;

	if (!ear_pick(&fuzz->ears[fuzz->now], choice, &r2t) || r2t.bytes > sizeof(data) / 2)
		return;
	args = (struct pdu_data_args){.cccid = r2t.cccid,
				      .ttag = r2t.ttag,
				      .offset = r2t.offset,
				      .data_bytes = r2t.bytes,
				      .is_last = true};
	if ((choice & 48) == 16)
		args.offset += choice & 64 ? 4 : 0xfffffffc;
	else if ((choice & 48) == 32)
		args.data_bytes = choice & 64 ? r2t.bytes * 2 : 1 + choice;
	if ((choice & 8) && args.data_bytes > 8) {
		struct pdu_data_args rest = args;
		uint32_t first = (choice & 128 ? 512 : 300) % args.data_bytes / 4 * 4;

		args.data_bytes = first ? first : 4;
		args.is_last = choice & 4;
		peer_send(peer_now(fuzz), hdr, pdu_encode_h2c_data(hdr, &encoding, &args));
		send_payload(fuzz, data, args.data_bytes);
		rest.offset += args.data_bytes;
		rest.data_bytes -= args.data_bytes;
		args = rest;
	}
	peer_send(peer_now(fuzz), hdr, pdu_encode_h2c_data(hdr, &encoding, &args));
	send_payload(fuzz, data, args.data_bytes);
}

static void send_admin(struct fuzz *fuzz)
{
	static const uint8_t data[4096];
	struct nvme_sqe sqe = {.opcode = script_u8(&fuzz->script)};
	uint8_t choice = script_u8(&fuzz->script);
	uint32_t bytes = (choice & 63) * 64u;

	sqe.nsid = le32_of(choice & 64 ? NVME_NSID_ALL : choice & 128 ? 1 : 0);
	sqe.cdw10 = le32_of(script_u32(&fuzz->script));
	sqe.cdw11 = le32_of(script_u16(&fuzz->script));
	fuzz->data_bytes = bytes;
	if (bytes == 0)
		sgl_encode_none(&sqe);
	else
		sgl_encode_transport(&sqe, bytes);
	send_command(fuzz, &sqe, data, 0);
}

/* An ICReq with a valid header and any values. */
static void send_ic_any(struct fuzz *fuzz)
{
	uint8_t hdr[NVME_TCP_HDR_MAX_BYTES];
	uint8_t choice = script_u8(&fuzz->script);
	uint32_t align = (1 + script_u8(&fuzz->script) % 32) * 4u;
	struct peer *peer = peer_now(fuzz);
	size_t bytes = pdu_encode_ic_req(hdr, align, choice & 1, choice & 2, 1u + (choice >> 2));

	fuzz->ears[fuzz->now].align_bytes = align;
	peer_send(peer, hdr, bytes);
}

static void send_term(struct fuzz *fuzz)
{
	uint8_t buf[NVME_TCP_TERM_HDR_BYTES + NVME_TCP_TERM_DATA_MAX_BYTES] = {0};
	struct pdu_error error = {.fes = script_u8(&fuzz->script), .what = "fuzz"};
	uint8_t bytes = script_u8(&fuzz->script) % (NVME_TCP_HDR_MAX_BYTES + 1);

	peer_send(peer_now(fuzz), buf,
		  pdu_encode_term(buf, PDU_ROLE_HOST, error, fuzz->ears[0].in, bytes));
}

static void send_raw(struct fuzz *fuzz)
{
	uint8_t bytes[255];
	size_t count = script_u8(&fuzz->script);

	if (count > fuzz->script.left)
		count = fuzz->script.left;
	script_bytes(&fuzz->script, bytes, count);
	peer_send(peer_now(fuzz), bytes, count);
}

/* ---- the script ------------------------------------------------------------------------------ */

static void run_ms(struct fuzz *fuzz, unsigned ms)
{
	sim_run_until(fuzz->sim, sim_now(fuzz->sim) + ms * NS_PER_MS);
}

static void say_step(struct fuzz *fuzz, enum step step)
{
	struct peer *peer = &fuzz->peers[fuzz->now];

	if (step == STEP_RAW)
		send_raw(fuzz);
	else if (step == STEP_IC_REQ)
		send_ic_req(fuzz);
	else if (step == STEP_CONNECT_ADMIN)
		send_connect(fuzz, 0, 32, script_u8(&fuzz->script) * 20);
	else if (step == STEP_ENABLE)
		send_enable(fuzz, script_u16(&fuzz->script));
	else if (step == STEP_CONNECT_IO)
		send_connect(fuzz, script_u8(&fuzz->script), 2 + script_u8(&fuzz->script), 0);
	else if (step == STEP_COMMAND)
		send_fuzzed_command(fuzz);
	else if (step == STEP_IO)
		send_io(fuzz);
	else if (step == STEP_DATA || step == STEP_DATA_FITTING)
		send_data(fuzz, step == STEP_DATA_FITTING);
	else if (step == STEP_R2T)
		send_r2t_data(fuzz);
	else if (step == STEP_ADMIN)
		send_admin(fuzz);
	else if (step == STEP_IC_ANY)
		send_ic_any(fuzz);
	else if (step == STEP_TERM)
		send_term(fuzz);
	else if (step == STEP_SPOIL)
		fuzz->spoils_digest = true;
	else if (step == STEP_CLOSE || step == STEP_RESET)
		peer_close(peer, step == STEP_RESET);
	else if (step == STEP_SWITCH)
		fuzz->now = (fuzz->now + 1) % CONNS;
	else if (step == STEP_DEAF && peer->is_open && !peer->is_connecting &&
		 !peer->sock.closing) {
		peer->is_deaf = !peer->is_deaf;
		peer_flush(peer); /* requests the events wanted from now on */
	}
}

static void script_play(struct fuzz *fuzz)
{
	for (unsigned steps = 0; fuzz->script.left > 0 && steps < 400; steps++) {
		enum step step = script_u8(&fuzz->script) % STEP_COUNT;

		if (step == STEP_TIME) {
			run_ms(fuzz, 1 + script_u8(&fuzz->script) * 10);
		} else if (step == STEP_SWAP) {
			fuzz->is_read_only = !fuzz->is_read_only;
			config_apply(fuzz);
		} else {
			sim_enter(fuzz->host);
			say_step(fuzz, step);
			sim_leave(fuzz->host);
		}
	}
	run_ms(fuzz, 100);
}

/* Connection 0 is an admin queue of an enabled controller, 1 an I/O queue of it. */
static void play_prelude(struct fuzz *fuzz)
{
	sim_enter(fuzz->host);
	send_ic_req(fuzz);
	send_connect(fuzz, 0, 32, 0);
	send_enable(fuzz, 0);
	sim_leave(fuzz->host);
	run_ms(fuzz, 5);
	fuzz->now = 1;
	sim_enter(fuzz->host);
	send_ic_req(fuzz);
	send_connect(fuzz, 1, 8, 0);
	sim_leave(fuzz->host);
	run_ms(fuzz, 5);
}

/* ---- the end --------------------------------------------------------------------------------- */

static void on_stopped(void *arg)
{
	((struct fuzz *)arg)->is_stopped = true;
}

static bool is_running(void *arg)
{
	return !((struct fuzz *)arg)->is_stopped;
}

static void fuzz_finish(struct fuzz *fuzz)
{
	struct target_stats stats;

	run_while(fuzz->sim, is_applying, fuzz);
	/* For half of the inputs the target ends the connections. */
	sim_enter(fuzz->host);
	for (unsigned i = 0; i < CONNS && (fuzz->cid & 1); i++)
		peer_close(&fuzz->peers[i], false);
	sim_leave(fuzz->host);
	sim_enter(fuzz->control);
	target_shutdown(fuzz->target, 100, on_stopped, fuzz);
	sim_leave(fuzz->control);
	run_while(fuzz->sim, is_running, fuzz);
	target_get_stats(fuzz->target, &stats);
	CHECK(stats.connections == 0 && stats.ctrls == 0 && stats.buffers_in_use == 0);
	sim_enter(fuzz->host);
	for (unsigned i = 0; i < CONNS; i++)
		peer_close(&fuzz->peers[i], true);
	sim_leave(fuzz->host);
	sim_run_until(fuzz->sim, sim_now(fuzz->sim) + 15 * NS_PER_S);
	sim_enter(fuzz->control);
	target_destroy(fuzz->target);
	ns_backing_put(fuzz->backing);
	sim_leave(fuzz->control);
	CHECK(sim_leaks(fuzz->sim) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
	struct sim_options options = {0};
	struct reactor_config config = {.cpu = -1};
	struct fuzz fuzz = {.script = {.at = input, .left = size}};

	log_set_level(LOG_LEVEL_OFF);
	fuzz.switches = script_u8(&fuzz.script);
	fuzz.sim = sim_create(size, &options);
	CHECK(net_addr_parse("10.0.0.1:4420", 4420, &fuzz.addr) == 0);
	CHECK(reactor_create(&config, &fuzz.control) == 0);
	CHECK(reactor_create(&config, &fuzz.data[0]) == 0);
	CHECK(reactor_create(&config, &fuzz.data[1]) == 0);
	CHECK(reactor_create(&config, &fuzz.host) == 0);
	for (unsigned i = 0; i < CONNS; i++) {
		peer_init(&fuzz.peers[i]);
		fuzz.peers[i].heard = on_heard;
		fuzz.peers[i].owner = &fuzz.ears[i];
		ear_reset(&fuzz.ears[i]);
	}
	target_start(&fuzz);
	if (fuzz.switches & SWITCH_READY)
		play_prelude(&fuzz);
	script_play(&fuzz);
	fuzz_finish(&fuzz);
	sim_destroy(fuzz.sim);
	for (unsigned i = 0; i < CONNS; i++)
		free(fuzz.peers[i].out);
	return 0;
}
