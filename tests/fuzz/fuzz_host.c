/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the host library with a controller that answers anything, on the simulated reactor.
 *
 * Input: a byte of switches, then one byte per PDU that the host sends: it chooses one of enum act,
 * and the bytes that the act takes. Everything else is answered as a good controller would, so that
 * deep states are reached. Checked: every command ends once, the host ends by itself, nothing is
 * leaked. One thread.
 */
#include "fuzz_script.h"

#include "base/log.h"
#include "base/text.h"
#include "host/host.h"
#include "wire/fabrics.h"
#include "wire/feature.h"
#include "wire/pdu.h"
#include "wire/sgl.h"

#define CONNS     4
#define IN_BYTES  (128 * 1024)
#define COMMANDS  12
#define PIECES    4
#define TTAG      7
#define BIG_BYTES 24576

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

enum act {
	ACT_HONEST,
	ACT_HONEST_TWICE,
	ACT_CQE,  /* 16 bytes of the input, with the right or a wrong CID */
	ACT_DATA, /* C2HData with any fields */
	ACT_R2T,
	ACT_IC_RESP,
	ACT_RAW,
	ACT_SILENT,
	ACT_CLOSE,
	ACT_RESET,
	ACT_TERM,
	ACT_PAGE, /* an honest answer with some bytes of the page changed */
	ACT_COUNT,
};

struct fuzz;

struct conn {
	struct peer peer; /* first: conn is found from its peer */
	struct fuzz *fuzz;
	struct pdu_state state;
	struct pdu_encoding encoding;
	bool is_admin;
	size_t in_bytes;
	uint8_t *in;
};

struct fuzz {
	struct script script;
	struct sim *sim;
	struct reactor *host;
	struct reactor *ctrl_reactor;
	struct reactor_listener listener;
	bool is_listener_closed;
	struct conn conns[CONNS];
	uint32_t cc;
	struct host_ctrl *ctrl;
	bool is_connected;
	bool is_lost;
	bool is_gone;
	struct host_cmd cmds[COMMANDS];
	struct iovec pieces[COMMANDS][PIECES];
	bool forgets; /* forgets the first read when another command is done */
	unsigned submitted;
	unsigned done;
};

/* ---- the controller's honest answers -------------------------------------------------------- */

static void send_data(struct conn *conn, const struct pdu_data_args *args, const uint8_t *data)
{
	uint8_t hdr[NVME_TCP_HDR_MAX_BYTES];
	uint32_t digest = htole32(crc32c(data, args->data_bytes));

	peer_send(&conn->peer, hdr, pdu_encode_c2h_data(hdr, &conn->encoding, args));
	peer_send(&conn->peer, data, args->data_bytes);
	if (conn->encoding.has_data_digest)
		peer_send(&conn->peer, &digest, sizeof(digest));
}

static void send_cqe(struct conn *conn, struct nvme_cqe *cqe)
{
	uint8_t hdr[NVME_TCP_HDR_MAX_BYTES];

	peer_send(&conn->peer, hdr, pdu_encode_resp(hdr, &conn->encoding, cqe));
}

static void respond(struct conn *conn, uint16_t cid, uint64_t result)
{
	struct nvme_cqe cqe = {
		.cid = le16_of(cid),
		.dw0 = le32_of((uint32_t)result),
		.dw1 = le32_of((uint32_t)(result >> 32)),
	};

	send_cqe(conn, &cqe);
}

static void send_r2t(struct conn *conn, uint16_t cid, uint32_t offset, uint32_t bytes)
{
	struct pdu_data_args args = {
		.cccid = cid, .ttag = TTAG, .offset = offset, .data_bytes = bytes};
	uint8_t hdr[NVME_TCP_HDR_MAX_BYTES];

	peer_send(&conn->peer, hdr, pdu_encode_r2t(hdr, &conn->encoding, &args));
}

static uint64_t property_value(const struct fuzz *fuzz, uint32_t offset)
{
	struct ctrl_capabilities cap = {
		.queue_size_max = 32, .ready_timeout_ms = 500, .supports_nvm = true};

	if (offset == PROPERTY_CAP)
		return cap_encode(&cap);
	if (offset == PROPERTY_VS)
		return NVME_VERSION_BASE;
	if (offset == PROPERTY_CC)
		return fuzz->cc;
	return (fuzz->cc & 1) | (cc_decode(fuzz->cc).shutdown ? CSTS_SHST_COMPLETE : 0);
}

static void fabrics_answer(struct conn *conn, const struct nvme_sqe *sqe)
{
	struct property_cmd cmd;
	uint64_t result = 0;

	if (fabrics_type(sqe) == NVMF_CONNECT) {
		result = 1;
	} else if (nvme_status_is_ok(property_decode(sqe, &cmd))) {
		if (fabrics_type(sqe) == NVMF_PROPERTY_SET && cmd.offset == PROPERTY_CC)
			conn->fuzz->cc = (uint32_t)cmd.value;
		else if (fabrics_type(sqe) == NVMF_PROPERTY_GET)
			result = property_value(conn->fuzz, cmd.offset);
	}
	respond(conn, le16_get(sqe->cid), result);
}

static void identity_fill(uint8_t *page)
{
	struct ctrl_identity identity = {
		.serial = "FUZZ",
		.model = "fuzz",
		.firmware = "1",
		.type = CTRL_TYPE_IO,
		.cntlid = 1,
		.version = NVME_VERSION_BASE,
		.transfer_max_bytes = 65536,
		.abort_limit = 4,
		.async_event_limit = 4,
		.error_log_entries = 1,
		.keep_alive_step_ms = 100,
		.queue_entries_max = 32,
		.namespace_id_max = 1,
		.namespaces_allowed_max = 1,
		.in_capsule_bytes = 4096,
	};

	text_copy(identity.subsystem_nqn, sizeof(identity.subsystem_nqn),
		  "nqn.2026-11.io.weft:default");
	identify_ctrl_encode(&identity, page);
}

/* changes: number of pairs (offset, byte) of the input that are written into the page. */
static void answer(struct conn *conn, const struct pdu *pdu, unsigned changes)
{
	static uint8_t data[65536 + NVME_PAGE_BYTES];
	const struct nvme_sqe *sqe = &pdu->u.sqe;
	uint16_t cid = le16_get(sqe->cid);
	struct pdu_data_args args = {.cccid = cid, .is_last = true, .is_success = true};
	struct sgl sgl;

	if (sqe->opcode == NVME_OPCODE_FABRICS) {
		fabrics_answer(conn, sqe);
		return;
	}
	if (!nvme_status_is_ok(sgl_decode(sqe, pdu->data_bytes, &sgl)) || sgl.len_bytes > 65536)
		sgl = (struct sgl){0};
	args.data_bytes = sgl.len_bytes;
	if (conn->is_admin && sqe->opcode == NVME_ADMIN_SET_FEATURES) {
		respond(conn, cid, feature_queue_count_encode(2, 2));
	} else if (conn->is_admin && sqe->opcode == NVME_ADMIN_ASYNC_EVENT) {
		return;
	} else if ((sqe->opcode & 3) == 2 && sgl.len_bytes > 0) {
		memset(data, 0, sgl.len_bytes);
		if (conn->is_admin && sqe->opcode == NVME_ADMIN_IDENTIFY)
			identity_fill(data);
		while (changes-- > 0) {
			uint16_t at = script_u16(&conn->fuzz->script);

			data[at % NVME_PAGE_BYTES] = script_u8(&conn->fuzz->script);
		}
		send_data(conn, &args, data);
	} else if (sgl.kind == SGL_TRANSPORT && sgl.len_bytes > 0) {
		send_r2t(conn, cid, 0, sgl.len_bytes);
	} else {
		respond(conn, cid, 0);
	}
}

static void ic_answer(struct conn *conn, const struct pdu *pdu)
{
	uint8_t hdr[NVME_TCP_HDR_MAX_BYTES];

	conn->state.is_initialized = true;
	conn->state.has_header_digest = pdu->u.ic.wants_header_digest;
	conn->state.has_data_digest = pdu->u.ic.wants_data_digest;
	conn->encoding = (struct pdu_encoding){
		.has_header_digest = pdu->u.ic.wants_header_digest,
		.has_data_digest = pdu->u.ic.wants_data_digest,
		.data_align_bytes = pdu->u.ic.data_align_bytes,
	};
	peer_send(&conn->peer, hdr,
		  pdu_encode_ic_resp(hdr, 4, conn->state.has_header_digest,
				     conn->state.has_data_digest, 8192));
}

static void honest(struct conn *conn, const struct pdu *pdu, unsigned changes)
{
	if (pdu->type == NVME_TCP_PDU_IC_REQ)
		ic_answer(conn, pdu);
	else if (pdu->type == NVME_TCP_PDU_CAPSULE_CMD)
		answer(conn, pdu, changes);
	else if (pdu->type == NVME_TCP_PDU_H2C_DATA && pdu->is_last)
		respond(conn, pdu->u.data.cccid, 0);
}

/* ---- the controller's lies ------------------------------------------------------------------ */

static uint16_t cid_of(const struct pdu *pdu)
{
	if (pdu->type == NVME_TCP_PDU_CAPSULE_CMD)
		return le16_get(pdu->u.sqe.cid);
	return pdu->type == NVME_TCP_PDU_H2C_DATA ? pdu->u.data.cccid : 0;
}

static void act_data(struct conn *conn, const struct pdu *pdu)
{
	static const uint8_t data[65536];
	struct script *script = &conn->fuzz->script;
	uint8_t choice = script_u8(script);
	struct pdu_data_args args = {
		.cccid = choice & 1 ? script_u16(script) : cid_of(pdu),
		.offset = choice & 2 ? script_u32(script) : 0,
		.data_bytes = script_u16(script),
		.is_last = choice & 12, /* SUCCESS without LAST is left to ACT_RAW */
		.is_success = choice & 8,
	};

	if (args.data_bytes == 0)
		args.data_bytes = 1;
	send_data(conn, &args, data);
}

static void act_raw(struct conn *conn)
{
	uint8_t bytes[255];
	size_t count = script_u8(&conn->fuzz->script);

	script_bytes(&conn->fuzz->script, bytes, count);
	peer_send(&conn->peer, bytes, count);
}

static void act_cqe(struct conn *conn, const struct pdu *pdu)
{
	struct nvme_cqe cqe;

	script_bytes(&conn->fuzz->script, &cqe, sizeof(cqe));
	if (cqe.sqid.bytes[0] & 1)
		cqe.cid = le16_of(cid_of(pdu));
	send_cqe(conn, &cqe);
}

static void act_ic_resp(struct conn *conn)
{
	struct script *script = &conn->fuzz->script;
	uint8_t hdr[NVME_TCP_IC_BYTES] = {NVME_TCP_PDU_IC_RESP, 0, NVME_TCP_IC_BYTES, 0,
					  NVME_TCP_IC_BYTES};

	/* Version, alignment, digests and MAXH2CDATA come from the input. */
	script_bytes(script, hdr + 8, 8);
	conn->state.is_initialized = true;
	conn->state.has_header_digest = hdr[11] & 1;
	conn->state.has_data_digest = hdr[11] & 2;
	conn->encoding.has_header_digest = hdr[11] & 1;
	conn->encoding.has_data_digest = hdr[11] & 2;
	peer_send(&conn->peer, hdr, sizeof(hdr));
}

static void act_term(struct conn *conn)
{
	uint8_t buf[NVME_TCP_TERM_HDR_BYTES + NVME_TCP_TERM_DATA_MAX_BYTES];
	struct pdu_error error = {.fes = script_u8(&conn->fuzz->script), .what = "fuzz"};

	peer_send(&conn->peer, buf, pdu_encode_term(buf, PDU_ROLE_TARGET, error, buf, 0));
}

static void act_r2t(struct conn *conn, const struct pdu *pdu)
{
	struct script *script = &conn->fuzz->script;
	uint8_t choice = script_u8(script);
	uint32_t offset = choice & 2 ? script_u32(script) : 0;
	uint32_t bytes = script_u16(script) + (choice & 8 ? 0x10000u : 0);

	send_r2t(conn, choice & 1 ? script_u16(script) : cid_of(pdu), offset, bytes ? bytes : 1);
}

static void act(struct conn *conn, const struct pdu *pdu)
{
	enum act choice = script_u8(&conn->fuzz->script) % ACT_COUNT;

	if (choice == ACT_CQE)
		act_cqe(conn, pdu);
	else if (choice == ACT_DATA)
		act_data(conn, pdu);
	else if (choice == ACT_R2T)
		act_r2t(conn, pdu);
	else if (choice == ACT_IC_RESP)
		act_ic_resp(conn);
	else if (choice == ACT_RAW)
		act_raw(conn);
	else if (choice == ACT_CLOSE || choice == ACT_RESET)
		peer_close(&conn->peer, choice == ACT_RESET);
	else if (choice == ACT_TERM)
		act_term(conn);
	else if (choice == ACT_PAGE)
		honest(conn, pdu, 1 + script_u8(&conn->fuzz->script) % 4);
	else if (choice != ACT_SILENT)
		honest(conn, pdu, 0);
	if (choice == ACT_HONEST_TWICE && pdu->type != NVME_TCP_PDU_IC_REQ)
		honest(conn, pdu, 0);
}

/* Takes whole PDUs of the host out of the received bytes. */
static void on_heard(struct peer *peer, const uint8_t *bytes, size_t len_bytes)
{
	struct conn *conn = container_of(peer, struct conn, peer);
	struct pdu_error error;
	struct pdu pdu;

	if (len_bytes > IN_BYTES - conn->in_bytes)
		return;
	memcpy(conn->in + conn->in_bytes, bytes, len_bytes);
	conn->in_bytes += len_bytes;
	while (peer->is_open && !peer->sock.closing &&
	       pdu_decode(conn->in, conn->in_bytes, &conn->state, &pdu, &error) == PDU_DECODED) {
		size_t whole = pdu.data_offset + pdu.data_bytes +
			       (pdu.has_data_digest ? NVME_TCP_DIGEST_BYTES : 0);

		if (conn->in_bytes < whole)
			return;
		act(conn, &pdu);
		conn->in_bytes -= whole;
		memmove(conn->in, conn->in + whole, conn->in_bytes);
	}
}

static void on_accepted(struct reactor_listener *listener, int taken_fd,
			const struct net_addr *from)
{
	struct fuzz *fuzz = container_of(listener, struct fuzz, listener);

	for (unsigned i = 0; i < CONNS; i++) {
		struct conn *conn = &fuzz->conns[i];

		if (conn->peer.is_open)
			continue;
		conn->is_admin = i == 0;
		conn->in_bytes = 0;
		conn->state = (struct pdu_state){
			.role = PDU_ROLE_TARGET,
			.data_align_bytes = 4,
			.in_capsule_max_bytes = 65536,
			.data_max_bytes = UINT32_MAX,
		};
		conn->encoding = (struct pdu_encoding){.data_align_bytes = 4};
		peer_accept(&conn->peer, fuzz->ctrl_reactor, taken_fd);
		return;
	}
	reactor_refuse_fd(taken_fd);
}

static void on_listener_closed(struct reactor_listener *listener)
{
	container_of(listener, struct fuzz, listener)->is_listener_closed = true;
}

/* ---- the host -------------------------------------------------------------------------------- */

static struct fuzz *fuzz_running;

static void cmd_end(struct host_cmd *cmd)
{
	cmd->done = NULL;
	free(cmd->data);
	cmd->data = NULL;
	for (unsigned i = 0; i < cmd->iov_count; i++)
		free(cmd->iov[i].iov_base);
	cmd->iov_count = 0;
}

static void on_done(struct host_cmd *cmd)
{
	struct fuzz *fuzz = fuzz_running;
	struct host_cmd *first = &fuzz->cmds[0];

	fuzz->done++;
	/* Fails for a command that completes twice or was never submitted. */
	CHECK(cmd->done == on_done);
	cmd_end(cmd);
	if (fuzz->forgets && first->done != NULL && host_ctrl_io_queues(fuzz->ctrl) > 0) {
		host_cmd_forget(fuzz->ctrl, 0, first);
		cmd_end(first);
		fuzz->submitted--;
	}
}

/* Cuts the data into pieces, one of them empty; each piece has memory of its own. */
static void cmd_cut(struct host_cmd *cmd, struct iovec *pieces)
{
	size_t lens[PIECES] = {1, 0, 302, cmd->data_bytes - 303};

	free(cmd->data);
	cmd->data = NULL;
	for (unsigned i = 0; i < PIECES; i++) {
		pieces[i] = (struct iovec){.iov_base = calloc(1, lens[i]), .iov_len = lens[i]};
		CHECK(pieces[i].iov_base != NULL);
	}
	cmd->iov = pieces;
	cmd->iov_count = PIECES;
}

static void commands_submit(struct fuzz *fuzz)
{
	for (unsigned i = 0; i < COMMANDS; i++) {
		struct host_cmd *cmd = &fuzz->cmds[i];
		uint32_t bytes = i & 4 ? BIG_BYTES : 512;
		/* Exactly the requested size, so that ASan sees a byte too many. */
		void *data = calloc(1, bytes);

		CHECK(data != NULL);
		if (i % 3 == 0)
			host_cmd_read(cmd, 1, 0, bytes / 512, data, bytes);
		else
			host_cmd_write(cmd, 1, 0, bytes / 512, data, bytes);
		cmd->data = data;
		if (i % 2 == 0)
			cmd_cut(cmd, fuzz->pieces[i]);
		cmd->done = on_done;
		fuzz->submitted++;
		if (host_ctrl_io_queues(fuzz->ctrl) > 0)
			host_submit_io(fuzz->ctrl, i % host_ctrl_io_queues(fuzz->ctrl), cmd);
		else
			host_submit_admin(fuzz->ctrl, cmd);
	}
}

static void on_connected(struct host_ctrl *ctrl, void *arg, int res, const struct host_error *error)
{
	struct fuzz *fuzz = arg;

	if (res != 0) {
		CHECK(memchr(error->text, 0, sizeof(error->text)) != NULL);
		fuzz->is_gone = true;
		return;
	}
	fuzz->is_connected = true;
	commands_submit(fuzz);
}

static void on_gone(void *arg)
{
	((struct fuzz *)arg)->is_gone = true;
}

static void on_lost(struct host_ctrl *ctrl, void *arg, const struct host_error *error)
{
	struct fuzz *fuzz = arg;

	CHECK(fuzz->done == fuzz->submitted);
	fuzz->is_lost = true;
	host_disconnect(ctrl, on_gone, fuzz);
}

static void on_event(struct host_ctrl *ctrl, void *arg, const struct async_event *event)
{
}

static void host_start(struct fuzz *fuzz, unsigned switches)
{
	struct host_callbacks callbacks = {
		.connected = on_connected, .lost = on_lost, .event = on_event};
	struct host_config config = {
		.addr.net = fuzz->listener.addr,
		.io_queues = 2,
		.io_queue_size = 8,
		.kato_ms = switches & 4 ? 500 : 0,
		.wants_header_digest = switches & 1,
		.wants_data_digest = switches & 2,
		.wants_sq_flow_control = switches & 8,
		.connect_timeout_ms = 1000,
		.command_timeout_ms = 800,
		.silence_timeout_ms = switches & 16 ? 150 : 0,
		.zero_copy_min_bytes = switches & 32 ? 512 : 0,
	};

	fuzz->forgets = switches & 64;
	text_copy(config.subsystem_nqn, sizeof(config.subsystem_nqn),
		  "nqn.2026-11.io.weft:default");
	text_copy(config.host_nqn, sizeof(config.host_nqn), "nqn.2026-11.io.weft:fuzz");
	sim_enter(fuzz->host);
	CHECK(host_connect(fuzz->host, &config, &callbacks, fuzz, &fuzz->ctrl) == 0);
	sim_leave(fuzz->host);
}

static bool is_connecting(void *arg)
{
	struct fuzz *fuzz = arg;

	return !fuzz->is_connected && !fuzz->is_gone;
}

static bool is_busy(void *arg)
{
	struct fuzz *fuzz = arg;

	return fuzz->done < fuzz->submitted;
}

static bool is_there(void *arg)
{
	return !((struct fuzz *)arg)->is_gone;
}

static void host_play(struct fuzz *fuzz)
{
	run_while(fuzz->sim, is_connecting, fuzz);
	run_while(fuzz->sim, is_busy, fuzz);
	if (!fuzz->is_gone && !fuzz->is_lost) {
		sim_enter(fuzz->host);
		host_disconnect(fuzz->ctrl, on_gone, fuzz);
		sim_leave(fuzz->host);
	}
	run_while(fuzz->sim, is_there, fuzz);
	CHECK(fuzz->done == fuzz->submitted);
}

static void fuzz_finish(struct fuzz *fuzz)
{
	sim_enter(fuzz->ctrl_reactor);
	for (unsigned i = 0; i < CONNS; i++)
		peer_close(&fuzz->conns[i].peer, true);
	reactor_listener_close(&fuzz->listener, on_listener_closed);
	sim_leave(fuzz->ctrl_reactor);
	sim_run_until(fuzz->sim, sim_now(fuzz->sim) + 10 * NS_PER_S);
	CHECK(fuzz->is_listener_closed && sim_leaks(fuzz->sim) == 0);
	sim_destroy(fuzz->sim);
	for (unsigned i = 0; i < CONNS; i++) {
		free(fuzz->conns[i].in);
		free(fuzz->conns[i].peer.out);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
	struct reactor_config config = {.cpu = -1};
	static struct fuzz fuzz;
	struct net_addr addr;
	unsigned switches;

	log_set_level(LOG_LEVEL_OFF);
	memset(&fuzz, 0, sizeof(fuzz));
	fuzz_running = &fuzz;
	fuzz.script = (struct script){.at = input, .left = size};
	switches = script_u8(&fuzz.script);
	fuzz.sim = sim_create(size, NULL);
	CHECK(reactor_create(&config, &fuzz.host) == 0);
	CHECK(reactor_create(&config, &fuzz.ctrl_reactor) == 0);
	for (unsigned i = 0; i < CONNS; i++) {
		peer_init(&fuzz.conns[i].peer);
		fuzz.conns[i].peer.heard = on_heard;
		fuzz.conns[i].fuzz = &fuzz;
		fuzz.conns[i].in = malloc(IN_BYTES);
		CHECK(fuzz.conns[i].in != NULL);
	}
	CHECK(net_addr_parse("10.0.0.1:4420", 4420, &addr) == 0);
	sim_enter(fuzz.ctrl_reactor);
	CHECK(reactor_listener_open(fuzz.ctrl_reactor, &fuzz.listener, &addr, on_accepted) == 0);
	sim_leave(fuzz.ctrl_reactor);
	host_start(&fuzz, switches);
	host_play(&fuzz);
	fuzz_finish(&fuzz);
	return 0;
}
