/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Targets that lie, one row per lie, on the simulated reactor: in the ICResp, while the controller
 * is brought up, in answer to a read and in answer to a write. Each row has words that the error
 * must contain. A lie ends its path or its command, never the process, and leaves nothing behind
 * (sim_leaks, and ASan for memory). Then connections that end at every command and after every
 * byte. NVMe/TCP 1.1, section 3.5; Base 2.1, sections 3.5.2 and 5.
 */
#include "host_world.h"

#include "wire/nvme_tcp.h"

#define READ_BLOCKS 16
#define READ_BYTES  (READ_BLOCKS * FAKE_BLOCK_BYTES)

enum pdu_byte {
	AT_TYPE = 0,
	AT_FLAGS = 1,
	AT_HLEN = 2,
	AT_PDO = 3,
	AT_PLEN = 4,
	AT_CCCID = 8,
	AT_OFFSET = 12,
	AT_LENGTH = 16,
	AT_CID = 20,
	AT_PFV = 8,
	AT_CPDA = 10,
	AT_DGST = 11,
	AT_LIMIT = 12,
};

struct lie {
	const char *name;
	/* Words of the error. For a lie that fails only its command: NULL, and the status. */
	const char *text;
	nvme_status status;
	bool (*script)(struct fake_conn *fc, const struct nvme_sqe *sqe, uint32_t data_bytes);
	/* Written over the header of an honest PDU. */
	uint8_t at;
	uint8_t width;
	uint32_t value;
	bool has_digests;
	int result; /* of host_connect */
};

static const struct lie *lie_now;

static void patch(struct tcp_tx *tx)
{
	for (unsigned i = 0; i < lie_now->width; i++)
		tx->hdr[lie_now->at + i] = (uint8_t)(lie_now->value >> 8 * i);
}

static bool is_io(const struct fake_conn *fc, const struct nvme_sqe *sqe)
{
	return fc->qid != 0 && sqe->opcode != NVME_OPCODE_FABRICS;
}

static void send_data(struct fake_conn *fc, const struct nvme_sqe *sqe, struct pdu_data_args args)
{
	fake_send_data(fc, le16_get(sqe->cid), fc->fake->store, args);
}

static void respond_ok(struct fake_conn *fc, const struct nvme_sqe *sqe)
{
	fake_respond(fc, le16_get(sqe->cid), NVME_SC_SUCCESS, 0);
}

/* ---- lies in answer to I/O ------------------------------------------------------------------ */

static bool patched_data(struct fake_conn *fc, const struct nvme_sqe *sqe, uint32_t data_bytes)
{
	struct fake_tx *out;
	struct pdu_data_args args = {.cccid = le16_get(sqe->cid),
				     .data_bytes = READ_BYTES,
				     .is_last = true,
				     .is_success = true};

	if (!is_io(fc, sqe))
		return false;
	out = fake_tx_new(fc->fake->store, READ_BYTES);
	tcp_send_c2h_data(&fc->conn, &out->tx, &args);
	patch(&out->tx);
	return true;
}

static bool patched_response(struct fake_conn *fc, const struct nvme_sqe *sqe, uint32_t data_bytes)
{
	struct fake_tx *out;
	struct nvme_cqe cqe = {.cid = sqe->cid};

	if (!is_io(fc, sqe))
		return false;
	out = fake_tx_new(NULL, 0);
	tcp_send_resp(&fc->conn, &out->tx, &cqe);
	patch(&out->tx);
	return true;
}

static bool patched_r2t(struct fake_conn *fc, const struct nvme_sqe *sqe, uint32_t data_bytes)
{
	struct fake_tx *out;
	struct pdu_data_args args = {.cccid = le16_get(sqe->cid), .data_bytes = READ_BYTES};

	if (!is_io(fc, sqe))
		return false;
	out = fake_tx_new(NULL, 0);
	tcp_send_r2t(&fc->conn, &out->tx, &args);
	patch(&out->tx);
	return true;
}

static bool data_backwards(struct fake_conn *fc, const struct nvme_sqe *sqe, uint32_t data_bytes)
{
	if (!is_io(fc, sqe))
		return false;
	send_data(fc, sqe,
		  (struct pdu_data_args){
			  .offset = 4096, .data_bytes = 4096, .is_last = true, .is_success = true});
	return true;
}

static bool data_twice(struct fake_conn *fc, const struct nvme_sqe *sqe, uint32_t data_bytes)
{
	if (!is_io(fc, sqe))
		return false;
	send_data(fc, sqe, (struct pdu_data_args){.data_bytes = 4096});
	send_data(fc, sqe, (struct pdu_data_args){.data_bytes = 4096});
	return true;
}

static bool data_with_a_gap(struct fake_conn *fc, const struct nvme_sqe *sqe, uint32_t data_bytes)
{
	if (!is_io(fc, sqe))
		return false;
	send_data(fc, sqe, (struct pdu_data_args){.data_bytes = 1024});
	send_data(fc, sqe, (struct pdu_data_args){.offset = 2048, .data_bytes = 1024});
	return true;
}

static bool data_past_the_end(struct fake_conn *fc, const struct nvme_sqe *sqe, uint32_t data_bytes)
{
	if (!is_io(fc, sqe))
		return false;
	send_data(fc, sqe, (struct pdu_data_args){.data_bytes = 4096});
	send_data(fc, sqe,
		  (struct pdu_data_args){.offset = 4096, .data_bytes = 4100, .is_last = true});
	return true;
}

static bool data_after_the_end(struct fake_conn *fc, const struct nvme_sqe *sqe,
			       uint32_t data_bytes)
{
	if (!is_io(fc, sqe))
		return false;
	send_data(fc, sqe, (struct pdu_data_args){.data_bytes = READ_BYTES, .is_last = true});
	send_data(fc, sqe,
		  (struct pdu_data_args){.offset = READ_BYTES, .data_bytes = 4, .is_last = true});
	return true;
}

static bool success_after_half(struct fake_conn *fc, const struct nvme_sqe *sqe,
			       uint32_t data_bytes)
{
	if (!is_io(fc, sqe))
		return false;
	send_data(fc, sqe,
		  (struct pdu_data_args){
			  .data_bytes = READ_BYTES / 2, .is_last = true, .is_success = true});
	return true;
}

static bool success_without_data(struct fake_conn *fc, const struct nvme_sqe *sqe,
				 uint32_t data_bytes)
{
	if (!is_io(fc, sqe))
		return false;
	respond_ok(fc, sqe);
	return true;
}

static bool half_then_success(struct fake_conn *fc, const struct nvme_sqe *sqe, uint32_t data_bytes)
{
	if (!is_io(fc, sqe))
		return false;
	send_data(fc, sqe, (struct pdu_data_args){.data_bytes = READ_BYTES / 2});
	respond_ok(fc, sqe);
	return true;
}

static bool half_then_nothing(struct fake_conn *fc, const struct nvme_sqe *sqe, uint32_t data_bytes)
{
	if (!is_io(fc, sqe))
		return false;
	send_data(fc, sqe, (struct pdu_data_args){.data_bytes = READ_BYTES / 2});
	return true;
}

static bool nothing_at_all(struct fake_conn *fc, const struct nvme_sqe *sqe, uint32_t data_bytes)
{
	return is_io(fc, sqe);
}

static bool r2t_then_nothing(struct fake_conn *fc, const struct nvme_sqe *sqe, uint32_t data_bytes)
{
	if (!is_io(fc, sqe))
		return false;
	fc->writes[le16_get(sqe->cid)].is_open = true;
	fc->writes[le16_get(sqe->cid)].bytes = READ_BYTES;
	fake_send_r2t(fc, le16_get(sqe->cid), 0, READ_BYTES / 2);
	return true;
}

static bool r2t_out_of_order(struct fake_conn *fc, const struct nvme_sqe *sqe, uint32_t data_bytes)
{
	if (!is_io(fc, sqe))
		return false;
	fake_send_r2t(fc, le16_get(sqe->cid), 4096, 4096);
	return true;
}

static bool r2t_after_the_answer(struct fake_conn *fc, const struct nvme_sqe *sqe,
				 uint32_t data_bytes)
{
	if (!is_io(fc, sqe))
		return false;
	fake_respond(fc, le16_get(sqe->cid), NVME_SC_WRITE_FAULT, 0);
	fake_send_r2t(fc, le16_get(sqe->cid), 0, 4096);
	return true;
}

static bool answer_twice(struct fake_conn *fc, const struct nvme_sqe *sqe, uint32_t data_bytes)
{
	if (!is_io(fc, sqe))
		return false;
	fake_respond(fc, le16_get(sqe->cid), NVME_SC_WRITE_FAULT, 0);
	fake_respond(fc, le16_get(sqe->cid), NVME_SC_WRITE_FAULT, 0);
	return true;
}

static bool data_for_a_write(struct fake_conn *fc, const struct nvme_sqe *sqe, uint32_t data_bytes)
{
	if (!is_io(fc, sqe))
		return false;
	send_data(fc, sqe, (struct pdu_data_args){.data_bytes = READ_BYTES, .is_last = true});
	return true;
}

static bool half_a_header(struct fake_conn *fc, const struct nvme_sqe *sqe, uint32_t data_bytes)
{
	static const uint8_t half[10] = {NVME_TCP_PDU_C2H_DATA, 0x0c, 24, 24, 0x18, 0x20};
	struct iovec iov = {.iov_base = (void *)(uintptr_t)half, .iov_len = sizeof(half)};

	if (!is_io(fc, sqe))
		return false;
	EXPECT(tcp_stream_send(&fc->conn.stream, &iov, 1) > 0);
	tcp_conn_close(&fc->conn, "a test says so");
	return true;
}

#define PATHING                                                                                    \
	{                                                                                          \
		.value = 0x370                                                                     \
	}
#define PATCH(at_, width_, value_) .at = (at_), .width = (width_), .value = (value_)

static const struct lie read_lies[] = {
	{"type 8", "PDU type", PATHING, patched_data, PATCH(AT_TYPE, 1, 8)},
	{"type of a host", "PDU type", PATHING, patched_data, PATCH(AT_TYPE, 1, 4)},
	{"type 255", "PDU type", PATHING, patched_data, PATCH(AT_TYPE, 1, 255)},
	{"second ICResp", "second init", PATHING, patched_data, PATCH(AT_TYPE, 1, 1)},
	{"flag of digests", "differs from ICReq", PATHING, patched_data, PATCH(AT_FLAGS, 1, 0x0d)},
	{"flag of data digests", "differs from ICReq", PATHING, patched_data,
	 PATCH(AT_FLAGS, 1, 0x0e)},
	{"success, not last", "success before", PATHING, patched_data, PATCH(AT_FLAGS, 1, 0x08)},
	{"last not marked", "not marked", PATHING, patched_data, PATCH(AT_FLAGS, 1, 0)},
	{"header of 0", "header length", PATHING, patched_data, PATCH(AT_HLEN, 1, 0)},
	{"header of 25", "header length", PATHING, patched_data, PATCH(AT_HLEN, 1, 25)},
	{"header of 255", "header length", PATHING, patched_data, PATCH(AT_HLEN, 1, 255)},
	{"data in the header", "inside the header", PATHING, patched_data, PATCH(AT_PDO, 1, 20)},
	{"data unaligned", "align", PATHING, patched_data, PATCH(AT_PDO, 1, 26)},
	{"PDU of 0", "shorter than its header", PATHING, patched_data, PATCH(AT_PLEN, 4, 0)},
	{"PDU without data", "data", PATHING, patched_data, PATCH(AT_PLEN, 4, 24)},
	{"PDU of 4 GiB", "data length", PATHING, patched_data, PATCH(AT_PLEN, 4, UINT32_MAX)},
	{"PDU too short", "data length", PATHING, patched_data, PATCH(AT_PLEN, 4, 8000)},
	{"idle command", "expects none", PATHING, patched_data, PATCH(AT_CCCID, 2, 7)},
	{"no such command", "expects none", PATHING, patched_data, PATCH(AT_CCCID, 2, 0xffff)},
	{"offset", "out of order", PATHING, patched_data, PATCH(AT_OFFSET, 4, 4)},
	{"offset at the end", "out of order", PATHING, patched_data, PATCH(AT_OFFSET, 4, ~3u)},
	{"length", "data length", PATHING, patched_data, PATCH(AT_LENGTH, 4, 4)},
	{"length of 4 GiB", "data length", PATHING, patched_data, PATCH(AT_LENGTH, 4, ~0u)},
	{"header digest", "header digest", PATHING, patched_data, PATCH(AT_CCCID, 2, 7), true},
	{"data out of order", "out of order", PATHING, data_backwards},
	{"data twice", "out of order", PATHING, data_twice},
	{"data with a gap", "out of order", PATHING, data_with_a_gap},
	{"data past the end", "beyond the end", PATHING, data_past_the_end},
	{"data after the end", "beyond the end", PATHING, data_after_the_end},
	{"success after half", "last data before", PATHING, success_after_half},
	{"success without data", NULL, {0x004}, success_without_data},
	{"half, then success", NULL, {0x004}, half_then_success},
	{"half, then nothing", "was not answered", PATHING, half_then_nothing},
	{"nothing", "was not answered", PATHING, nothing_at_all},
	{"R2T for a read", "no data to send", PATHING, patched_r2t},
	{"answer to nobody", "not outstanding", PATHING, patched_response, PATCH(AT_CID, 2, 9)},
	{"answer to no slot", "not outstanding", PATHING, patched_response, PATCH(AT_CID, 2, 999)},
	{"answer with data", "PDU without data", PATHING, patched_response, PATCH(AT_PLEN, 4, 28)},
	{"answer of 20 bytes", "header length", PATHING, patched_response, PATCH(AT_HLEN, 1, 20)},
	{"answer with a flag", "flag", PATHING, patched_response, PATCH(AT_FLAGS, 1, 4)},
	{"end inside a header", "inside a PDU", PATHING, half_a_header},
};

static const struct lie write_lies[] = {
	{"R2T beyond", "beyond the end", PATHING, patched_r2t, PATCH(AT_LENGTH, 4, 8196)},
	{"R2T of 4 GiB", "beyond the end", PATHING, patched_r2t, PATCH(AT_LENGTH, 4, ~3u)},
	{"R2T for nothing", "asks for nothing", PATHING, patched_r2t, PATCH(AT_LENGTH, 4, 0)},
	{"R2T not in dwords", "dwords", PATHING, patched_r2t, PATCH(AT_LENGTH, 4, 4095)},
	{"R2T out of order", "out of order", PATHING, r2t_out_of_order},
	{"R2T of an idle command", "no data to send", PATHING, patched_r2t, PATCH(AT_CCCID, 2, 7)},
	{"R2T with data", "PDU without data", PATHING, patched_r2t, PATCH(AT_PLEN, 4, 28)},
	{"R2T after the answer", "no data to send", {0x280}, r2t_after_the_answer},
	{"two answers", "not outstanding", {0x280}, answer_twice},
	{"data for a write", "expects none", PATHING, data_for_a_write},
	{"no R2T", "was not answered", PATHING, nothing_at_all},
	{"half an R2T", "was not answered", PATHING, r2t_then_nothing},
	{"success unread", NULL, {0x004}, success_without_data},
	{"end inside a header", "inside a PDU", PATHING, half_a_header},
};

static void expect_text(const struct world *world, const struct lie *lie)
{
	if (strstr(world->error.text, lie->text) != NULL)
		return;
	printf("# %s: \"%s\" is not in \"%s\"\n", lie->name, lie->text, world->error.text);
	EXPECT(!"the words are there");
}

static void tell_io_lie(const struct lie *lie, bool is_write, uint64_t seed)
{
	struct world *world = world_create(seed);

	lie_now = lie;
	world->fake->script = lie->script;
	world->config.wants_header_digest = lie->has_digests;
	if (world_connect_ok(world)) {
		/* No write outside the buffer, nor into the buffer of a completed command. */
		memset(world->cmds[0].data, 0xee, CMD_BYTES);
		world_submit(world, 1, is_write, READ_BLOCKS);
		world_drain(world);
		if (!nvme_status_same(lie->status, world->cmds[0].cmd.status))
			printf("# %s: status 0x%03x\n", lie->name, world->cmds[0].cmd.status.value);
		EXPECT(nvme_status_same(lie->status, world->cmds[0].cmd.status));
		EXPECT_EQ(0xee, world->cmds[0].data[READ_BYTES]);
		if (lie->text != NULL) {
			EXPECT(sim_run_while(world->sim, is_not_lost, world, 10 * NS_PER_S));
			EXPECT_EQ(1, world->lost_count);
			expect_text(world, lie);
		} else {
			EXPECT_EQ(0, world->lost_count);
		}
	}
	world_destroy(world);
}

static void lies_about_reads(void)
{
	for (unsigned i = 0; i < ARRAY_LEN(read_lies); i++)
		for (uint64_t seed = 1000; seed < 1004; seed++)
			tell_io_lie(&read_lies[i], false, seed + i * 16);
}

static void lies_about_writes(void)
{
	for (unsigned i = 0; i < ARRAY_LEN(write_lies); i++)
		for (uint64_t seed = 3000; seed < 3004; seed++)
			tell_io_lie(&write_lies[i], true, seed + i * 16);
}

/* ---- lies in ICResp ------------------------------------------------------------------------- */

static void patch_ic(struct fake_conn *fc)
{
	patch(&fc->conn.ic_tx);
}

static const struct lie ic_lies[] = {
	{"version", "format version", .result = -EPROTO, PATCH(AT_PFV, 2, 1)},
	{"alignment", "alignment", .result = -EPROTO, PATCH(AT_CPDA, 1, 32)},
	{"digests unasked", "not asked for", .result = -EPROTO, PATCH(AT_DGST, 1, 3)},
	{"digests refused", "refused header digest", .result = -EPROTO, PATCH(AT_DGST, 1, 0),
	 .has_digests = true},
	{"MAXH2CDATA 0", "MAXH2CDATA", .result = -EPROTO, PATCH(AT_LIMIT, 4, 0)},
	{"MAXH2CDATA 4094", "MAXH2CDATA", .result = -EPROTO, PATCH(AT_LIMIT, 4, 4094)},
	{"MAXH2CDATA 4097", "MAXH2CDATA", .result = -EPROTO, PATCH(AT_LIMIT, 4, 4097)},
	{"PDU length", "PDU without data", .result = -EPROTO, PATCH(AT_PLEN, 4, 256)},
	{"header length", "header length", .result = -EPROTO, PATCH(AT_HLEN, 1, 8)},
	{"ICReq", "PDU type", .result = -EPROTO, PATCH(AT_TYPE, 1, 0)},
	{"response first", "before initialization", .result = -EPROTO, PATCH(AT_TYPE, 1, 5)},
	{"HTTP", "PDU type", .result = -EPROTO, PATCH(AT_TYPE, 4, 0x50545448)},
};

static void tell_setup_lie(const struct lie *lie, void (*on_ready)(struct fake_conn *fc))
{
	struct world *world = world_create(5000);
	char addr[NET_ADDR_TEXT_BYTES];

	lie_now = lie;
	world->fake->script = lie->script;
	world->fake->on_ready = on_ready;
	world->config.wants_header_digest = lie->has_digests;
	world->config.connect_timeout_ms = 1500;
	world_connect(world);
	if (lie->result != world->result)
		printf("# %s: %s\n", lie->name, world->error.text);
	EXPECT_EQ(lie->result, world->result);
	expect_text(world, lie);
	net_addr_format(&world->config.addr.net, addr);
	if (strstr(world->error.text, addr) == NULL &&
	    strstr(world->error.text, world->config.subsystem_nqn) == NULL) {
		printf("# %s: %s\n", lie->name, world->error.text);
		EXPECT(!"the error names the other side");
	}
	world_destroy(world);
}

static void lies_in_icresp(void)
{
	for (unsigned i = 0; i < ARRAY_LEN(ic_lies); i++)
		tell_setup_lie(&ic_lies[i], patch_ic);
}

/* ---- lies while the controller is brought up ------------------------------------------------ */

static bool is_property(const struct nvme_sqe *sqe, uint32_t offset)
{
	struct property_cmd cmd;

	return sqe->opcode == NVME_OPCODE_FABRICS && fabrics_type(sqe) == NVMF_PROPERTY_GET &&
	       nvme_status_is_ok(property_decode(sqe, &cmd)) && cmd.offset == offset;
}

static bool answer(struct fake_conn *fc, const struct nvme_sqe *sqe, uint64_t result)
{
	fake_respond(fc, le16_get(sqe->cid), NVME_SC_SUCCESS, result);
	return true;
}

static bool connect_wants_auth(struct fake_conn *fc, const struct nvme_sqe *sqe, uint32_t bytes)
{
	return sqe->opcode == NVME_OPCODE_FABRICS && fabrics_type(sqe) == NVMF_CONNECT &&
	       answer(fc, sqe, 5 | 1u << 17);
}

static bool cap_is_0(struct fake_conn *fc, const struct nvme_sqe *sqe, uint32_t bytes)
{
	return is_property(sqe, PROPERTY_CAP) && answer(fc, sqe, 0);
}

static bool cap_is_ones(struct fake_conn *fc, const struct nvme_sqe *sqe, uint32_t bytes)
{
	if (is_property(sqe, PROPERTY_CSTS))
		return answer(fc, sqe, 0);
	return is_property(sqe, PROPERTY_CAP) && answer(fc, sqe, UINT64_MAX);
}

static bool fatal_status(struct fake_conn *fc, const struct nvme_sqe *sqe, uint32_t bytes)
{
	return is_property(sqe, PROPERTY_CSTS) && answer(fc, sqe, CSTS_CFS | CSTS_RDY);
}

static bool identify_filled(struct fake_conn *fc, const struct nvme_sqe *sqe, uint8_t filler)
{
	uint8_t page[NVME_PAGE_BYTES];

	if (fc->qid != 0 || sqe->opcode != NVME_ADMIN_IDENTIFY)
		return false;
	memset(page, filler, sizeof(page));
	fake_send_page(fc, le16_get(sqe->cid), page, sizeof(page));
	return true;
}

static bool identify_zeros(struct fake_conn *fc, const struct nvme_sqe *sqe, uint32_t bytes)
{
	return identify_filled(fc, sqe, 0);
}

static bool identify_ones(struct fake_conn *fc, const struct nvme_sqe *sqe, uint32_t bytes)
{
	return identify_filled(fc, sqe, 0xff);
}

static bool identify_nothing(struct fake_conn *fc, const struct nvme_sqe *sqe, uint32_t bytes)
{
	return fc->qid == 0 && sqe->opcode == NVME_ADMIN_IDENTIFY && answer(fc, sqe, 0);
}

static bool identify_refused(struct fake_conn *fc, const struct nvme_sqe *sqe, uint32_t bytes)
{
	if (fc->qid != 0 || sqe->opcode != NVME_ADMIN_IDENTIFY)
		return false;
	fake_respond(fc, le16_get(sqe->cid), nvme_status_dnr(NVME_SC_INVALID_FIELD), 0);
	return true;
}

/* Connect reports controller 6, Identify controller 5. */
static bool two_names(struct fake_conn *fc, const struct nvme_sqe *sqe, uint32_t bytes)
{
	return sqe->opcode == NVME_OPCODE_FABRICS && fabrics_type(sqe) == NVMF_CONNECT &&
	       answer(fc, sqe, 6);
}

static bool queues_make_no_sense(struct fake_conn *fc, const struct nvme_sqe *sqe, uint32_t bytes)
{
	return fc->qid == 0 && sqe->opcode == NVME_ADMIN_SET_FEATURES &&
	       answer(fc, sqe, UINT32_MAX);
}

static bool mute(struct fake_conn *fc, const struct nvme_sqe *sqe, uint32_t bytes)
{
	return true;
}

static bool mute_from_identify(struct fake_conn *fc, const struct nvme_sqe *sqe, uint32_t bytes)
{
	return fc->qid == 0 && sqe->opcode == NVME_ADMIN_IDENTIFY;
}

static bool answer_to_another(struct fake_conn *fc, const struct nvme_sqe *sqe, uint32_t bytes)
{
	fake_respond(fc, (uint16_t)(le16_get(sqe->cid) + 1), NVME_SC_SUCCESS, 0);
	return true;
}

static const struct lie setup_lies[] = {
	{"authentication", "authentication", .result = -EACCES, .script = connect_wants_auth},
	{"CAP 0", "CAP.MQES", .result = -EPROTO, .script = cap_is_0},
	{"CAP of ones", "no answer within", .result = -ETIMEDOUT, .script = cap_is_ones},
	{"CSTS.CFS", "fatal status", .result = -EIO, .script = fatal_status},
	{"Identify of zeros", "is invalid", .result = -EPROTO, .script = identify_zeros},
	{"Identify of ones", "is invalid", .result = -EPROTO, .script = identify_ones},
	{"Identify without data", "Data Transfer Error", .result = -EIO,
	 .script = identify_nothing},
	{"Identify refused", "Invalid Field", .result = -EIO, .script = identify_refused},
	{"two names", "different controllers", .result = -EPROTO, .script = two_names},
	{"queue count", "number of queues", .result = -EPROTO, .script = queues_make_no_sense},
	{"mute", "no answer within 1500 ms during Connect", .result = -ETIMEDOUT, .script = mute},
	{"mute from Identify", "during Identify", .result = -ETIMEDOUT,
	 .script = mute_from_identify},
	{"another's answer", "not outstanding", .result = -EPROTO, .script = answer_to_another},
};

static void lies_while_connecting(void)
{
	for (unsigned i = 0; i < ARRAY_LEN(setup_lies); i++)
		tell_setup_lie(&setup_lies[i], NULL);
}

/* ---- ends at every step --------------------------------------------------------------------- */

static bool end_at(struct fake_conn *fc, const struct nvme_sqe *sqe, uint32_t bytes)
{
	unsigned at = fc->fake->script_at / 2;

	if (fc->fake->commands - 1 != at)
		return false;
	if (fc->fake->script_at % 2 == 0)
		tcp_conn_abort(&fc->conn, -ECONNABORTED, "a test says so");
	else
		tcp_conn_close(&fc->conn, "a test says so");
	return true;
}

/* Connects and reads once. Everything must be reported and freed. True: the connection was cut. */
static bool live_and_end(struct world *world)
{
	bool was_cut;

	world_connect(world);
	if (world->result == 0) {
		world_submit(world, 3, false, READ_BLOCKS);
		world_drain(world);
		sim_run_until(world->sim, sim_now(world->sim) + NS_PER_S);
		for (unsigned i = 0; i < 3; i++)
			if (!nvme_status_is_ok(world->cmds[i].cmd.status))
				EXPECT_EQ(1, world->lost_count);
	}
	was_cut = world->result != 0 || world->lost_count > 0;
	if (was_cut)
		EXPECT(world->error.text[0] != '\0');
	world_destroy(world);
	return was_cut;
}

static void ends_at_every_command(void)
{
	unsigned at = 0;

	for (bool was_cut = true; was_cut && at < 100; at++) {
		struct world *world = world_create(6000 + at);

		world->fake->script = end_at;
		world->fake->script_at = at;
		was_cut = live_and_end(world);
	}
	/* Connect, properties, Identify, features, Connect, reads: each ends in two ways. */
	EXPECT(at > 20 && at < 100);
}

static void ends_behind_every_byte(void)
{
	static const enum sim_net_break_kind kinds[] = {SIM_NET_RESET, SIM_NET_HALF_CLOSE};

	for (uint64_t bytes = 1; bytes < 30000; bytes += bytes < 700 ? 1 : 61) {
		struct sim_net_break net_break = {
			.kind = kinds[bytes % 2], .is_by_server = true, .after_bytes = bytes};
		struct world *world = world_create(7000 + bytes);
		bool was_cut;

		sim_net_set_break(world->sim, &net_break);
		was_cut = live_and_end(world);
		EXPECT(was_cut || bytes > 4096);
	}
}

int main(void)
{
	log_set_level(LOG_LEVEL_ERROR);
	TAP_RUN(lies_about_reads);
	TAP_RUN(lies_about_writes);
	TAP_RUN(lies_in_icresp);
	TAP_RUN(lies_while_connecting);
	TAP_RUN(ends_at_every_command);
	TAP_RUN(ends_behind_every_byte);
	return tap_end();
}
