/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Identify, Get Log Page, features and asynchronous events of a hand-built controller: commands go
 * through prepare and execute, and a fake transport records the completions. No reactor runs. The
 * ownership checks accept this: controller and caller both belong to none.
 */
#include "tap.h"

#include "target/ana_index.h"
#include "target/command.h"
#include "target/delta.h"
#include "target/host_rights.h"
#include "target/local.h"

#include <stdlib.h>

#define SLOT_COUNT (CTRL_AER_MAX + 2)

static struct slot *responded;

static void remember_response(struct slot *slot)
{
	responded = slot;
}

static const struct transport_ops transport = {.name = "test", .respond = remember_response};
static struct snapshot *snapshot;
static struct target target;
static struct local local;
static struct queue queue;
static struct ctrl *ctrl;
static struct slot slots[SLOT_COUNT];
static uint8_t data[8192];
static struct inflight inflight[1];
static struct media media = {.optimal_io_bytes = 65536};

static struct ns was_ns[] = {{.nsid = 1, .block_count = 100, .block_shift = 12, .ana_group = 1},
			     {.nsid = 3, .block_count = 100, .block_shift = 9, .ana_group = 2}};
static struct subsystem was = {.nqn = "nqn.2026-11.io.weft:test",
			       .serial = "S1",
			       .model = "weft",
			       .namespaces = was_ns,
			       .ns_count = 2};
static struct subsystem *was_list[] = {&was};
static struct port ports[] = {{.id = 1}};

/* Frees what applying adds to a snapshot. */
static void parts_free(struct snapshot *of)
{
	for (unsigned i = 0; i < of->subsystem_count; i++) {
		ana_index_destroy(of->subsystems[i]->ana);
		free(of->subsystems[i]->formers);
		of->subsystems[i]->ana = NULL;
		of->subsystems[i]->formers = NULL;
	}
	for (unsigned i = 0; i < of->port_count; i++) {
		free(of->ports[i].offers);
		free(of->ports[i].ana_group_counts);
		of->ports[i].offers = NULL;
		of->ports[i].ana_group_counts = NULL;
	}
}

static void set_up(enum ctrl_type type)
{
	struct delta *none;

	snapshot = calloc(1, sizeof(*snapshot));
	ctrl = calloc(1, sizeof(*ctrl));
	target_limits_default(&snapshot->limits);
	snapshot->subsystems = was_list;
	snapshot->subsystem_count = 1;
	snapshot->ports = ports;
	snapshot->port_count = 1;
	snapshot->inflight = inflight;
	inflight[0].count = 0;
	EXPECT_EQ(0, delta_prepare(NULL, snapshot, &none));
	local = (struct local){.target = &target, .snapshot = snapshot};
	for (unsigned i = 0; i < 2; i++)
		was_ns[i].media = &media;
	ctrl->local = &local;
	ctrl->target = &target;
	ctrl->state = CTRL_LIVE;
	ctrl->type = type;
	ctrl->cntlid = 5;
	ctrl->port_id = 1;
	ctrl->port = &ports[0];
	ctrl->subsystem = type == CTRL_TYPE_IO ? &was : NULL;
	memcpy(ctrl->subsystem_nqn, was.nqn, sizeof(was.nqn));
	memset(ctrl->host_id.bytes, 0x5a, sizeof(ctrl->host_id.bytes));
	ctrl->csts = CSTS_RDY;
	ctrl->io_queues_max = 8;
	ctrl_error_log_init(ctrl);
	ctrl_events_init(ctrl);
	queue = (struct queue){.local = &local, .transport = &transport, .ctrl = ctrl};
	memset(slots, 0, sizeof(slots));
}

static void tear_down(void)
{
	ctrl_error_log_free(ctrl);
	ctrl_known_free(ctrl);
	free(ctrl);
	parts_free(snapshot);
	free(snapshot);
}

/* Runs a command with an SGL of sgl_bytes. Returns its status; its data are in `data`. */
static nvme_status run(unsigned index, nvme_status (*prepare)(struct slot *), struct nvme_sqe sqe,
		       uint32_t sgl_bytes)
{
	struct slot *slot = &slots[index];
	nvme_status status;

	*slot = (struct slot){.queue = &queue, .sqe = sqe, .error_byte = 0xffff};
	slot->sqe.cid = le16_of((uint16_t)index);
	slot->sgl = (struct sgl){sgl_bytes ? SGL_TRANSPORT : SGL_NONE, sgl_bytes, 0};
	slot->snapshot = snapshot;
	inflight[0].count++;
	responded = NULL;
	status = prepare(slot);
	if (!nvme_status_is_ok(status))
		return status;
	slot->data = (struct buf){.addr = data, .kind = BUF_OWN};
	if (slot->direction == DATA_TO_HOST)
		memset(data, 0xee, sizeof(data));
	slot_set_state(slot, SLOT_RECEIVING);
	slot_set_state(slot, SLOT_EXECUTING);
	slot->execute(slot);
	return slot->status;
}

static void expect_status(nvme_status want, nvme_status got)
{
	EXPECT_EQ(want.value & 0x7ff, got.value & 0x7ff);
}

static nvme_status identify(uint8_t cns, uint32_t nsid, uint8_t csi, uint16_t cntid)
{
	struct identify_cmd cmd = {.cns = cns, .csi = csi, .cntid = cntid};
	struct nvme_sqe sqe = {0};

	identify_cmd_encode(&sqe, nsid, &cmd);
	return run(0, identify_prepare, sqe, NVME_PAGE_BYTES);
}

static nvme_status get_log(uint8_t id, uint32_t len_bytes, uint64_t offset, bool retains_event)
{
	struct log_cmd cmd = {.log_id = id,
			      .len_bytes = len_bytes,
			      .offset = offset,
			      .retains_event = retains_event};
	struct nvme_sqe sqe = {0};

	log_cmd_encode(&sqe, 0, &cmd);
	return run(0, log_prepare, sqe, len_bytes);
}

static nvme_status get_feature(uint8_t id, uint8_t select, uint32_t cdw11, uint32_t sgl_bytes)
{
	struct nvme_sqe sqe = {0};

	feature_get_encode(&sqe, id, select);
	sqe.cdw11 = le32_of(cdw11);
	return run(0, feature_get_prepare, sqe, sgl_bytes);
}

static nvme_status set_feature(uint8_t id, uint32_t cdw11, uint32_t sgl_bytes)
{
	struct nvme_sqe sqe = {0};

	feature_set_encode(&sqe, id, cdw11);
	return run(0, feature_set_prepare, sqe, sgl_bytes);
}

/* Event requests use slots 1 and up. */
static bool hold_event_request(unsigned index)
{
	run(index, async_event_prepare, (struct nvme_sqe){.opcode = NVME_ADMIN_ASYNC_EVENT}, 0);
	return responded == NULL;
}

static bool data_is_zero(uint32_t bytes)
{
	for (uint32_t i = 0; i < bytes; i++)
		if (data[i] != 0)
			return false;
	return true;
}

static void identify_answers_by_nsid(void)
{
	struct ns_identity identity;
	uint32_t nsids[1024];

	set_up(CTRL_TYPE_IO);
	expect_status(NVME_SC_SUCCESS, identify(IDENTIFY_NS, 3, 0, 0));
	EXPECT_EQ(0, identify_ns_decode(data, &identity));
	EXPECT_EQ(100, identity.block_count);
	EXPECT_EQ(512, identity.block_bytes);
	EXPECT_EQ(2, identity.ana_group_id);
	expect_status(NVME_SC_SUCCESS, identify(IDENTIFY_NS, 2, 0, 0));
	EXPECT(data_is_zero(NVME_PAGE_BYTES));
	expect_status(NVME_SC_SUCCESS, identify(IDENTIFY_CSI_NS, 2, 0, 0));
	EXPECT(data_is_zero(NVME_PAGE_BYTES));
	expect_status(NVME_SC_SUCCESS, identify(IDENTIFY_CSI_INDEPENDENT_NS, 2, 0, 0));
	EXPECT(data_is_zero(NVME_PAGE_BYTES));
	expect_status(NVME_SC_INVALID_FIELD, identify(IDENTIFY_NS_DESCRIPTORS, 2, 0, 0));
	expect_status(NVME_SC_SUCCESS, identify(IDENTIFY_NS_DESCRIPTORS, 1, 0, 0));
	expect_status(NVME_SC_INVALID_NS, identify(IDENTIFY_NS, 0, 0, 0));
	expect_status(NVME_SC_INVALID_NS, identify(IDENTIFY_NS, TARGET_NSID_MAX + 1, 0, 0));
	expect_status(NVME_SC_INVALID_NS, identify(IDENTIFY_NS, NVME_NSID_ALL, 0, 0));
	expect_status(NVME_SC_SUCCESS, identify(IDENTIFY_NS_LIST, 0, 0, 0));
	EXPECT_EQ(2, identify_ns_list_decode(data, nsids));
	expect_status(NVME_SC_SUCCESS, identify(IDENTIFY_CSI_NS_LIST, 1, 0, 0));
	EXPECT_EQ(1, identify_ns_list_decode(data, nsids));
	EXPECT_EQ(3, nsids[0]);
	expect_status(NVME_SC_INVALID_NS, identify(IDENTIFY_NS_LIST, 0xfffffffe, 0, 0));
	tear_down();
}

static void identify_judges_cns_and_csi(void)
{
	struct ctrl_identity identity;

	set_up(CTRL_TYPE_IO);
	expect_status(NVME_SC_SUCCESS, identify(IDENTIFY_CTRL, 0, 0, 0));
	EXPECT_EQ(0, identify_ctrl_decode(data, &identity));
	EXPECT_EQ(CTRL_TYPE_IO, identity.type);
	EXPECT_EQ(5, identity.cntlid);
	EXPECT_STR("S1", identity.serial);
	EXPECT_STR(was.nqn, identity.subsystem_nqn);
	EXPECT(identity.has_ana && identity.has_volatile_cache && identity.has_event_shutdown);
	EXPECT_EQ(TARGET_NSID_MAX, identity.namespaces_allowed_max);
	EXPECT_EQ(snapshot->limits.transfer_max_bytes, identity.transfer_max_bytes);
	expect_status(NVME_SC_INVALID_FIELD, identify(0x55, 0, 0, 0));
	EXPECT_EQ(SQE_BYTE_CDW10, slots[0].error_byte);
	expect_status(NVME_SC_INVALID_FIELD, identify(IDENTIFY_CSI_CTRL, 0, NVME_CSI_ZNS, 0));
	expect_status(NVME_SC_SUCCESS, identify(IDENTIFY_CSI_CTRL, 0, NVME_CSI_NVM, 0));
	expect_status(NVME_SC_SUCCESS, identify(IDENTIFY_COMMAND_SETS, 0, 0, 5));
	expect_status(NVME_SC_SUCCESS, identify(IDENTIFY_COMMAND_SETS, 0, 0, NVME_CNTLID_ANY));
	expect_status(NVME_SC_INVALID_FIELD, identify(IDENTIFY_COMMAND_SETS, 0, 0, 6));
	ctrl->subsystem = NULL;
	expect_status(NVME_SC_INTERNAL, identify(IDENTIFY_NS, 1, 0, 0));
	EXPECT((slots[0].status.value & NVME_STATUS_DNR) == 0);
	tear_down();
	set_up(CTRL_TYPE_DISCOVERY);
	expect_status(NVME_SC_SUCCESS, identify(IDENTIFY_CTRL, 0, 0, 0));
	EXPECT_EQ(0, identify_ctrl_decode(data, &identity));
	EXPECT_EQ(CTRL_TYPE_DISCOVERY, identity.type);
	EXPECT(identity.has_event_discovery_change && !identity.has_event_ana_change);
	expect_status(NVME_SC_INVALID_FIELD, identify(IDENTIFY_NS_LIST, 0, 0, 0));
	tear_down();
}

/* A list has 2047 entries, from CNTID on: I/O controllers of the same subsystem. */
static void ctrl_list_ends_when_it_is_full(void)
{
	static struct ctrl *ctrls[NVME_CNTLID_MAX + 1];
	struct identify_cmd cmd = {.cns = IDENTIFY_CTRL_LIST};
	uint16_t cntlids[IDENTIFY_CTRL_LIST_MAX + 1];
	struct ctrl *other, *discovery;

	set_up(CTRL_TYPE_IO);
	other = calloc(1, sizeof(*other));
	discovery = calloc(1, sizeof(*discovery));
	other->type = CTRL_TYPE_IO;
	discovery->type = CTRL_TYPE_DISCOVERY;
	memcpy(discovery->subsystem_nqn, was.nqn, sizeof(was.nqn));
	for (unsigned id = 10; id < 2100; id++)
		ctrls[id] = id == 11 ? other : id == 12 ? discovery : ctrl;
	target.ctrls = ctrls;
	target.ctrl_count = 2090;
	slots[0].queue = &queue;
	identify_cmd_encode(&slots[0].sqe, 0, &cmd);
	cntlids[IDENTIFY_CTRL_LIST_MAX] = 0xeeee;
	EXPECT_EQ(IDENTIFY_CTRL_LIST_MAX, identify_ctrls_find(&slots[0], cntlids));
	EXPECT_EQ(0xeeee, cntlids[IDENTIFY_CTRL_LIST_MAX]);
	EXPECT_EQ(10, cntlids[0]);
	EXPECT_EQ(13, cntlids[1]);
	EXPECT_EQ(2058, cntlids[IDENTIFY_CTRL_LIST_MAX - 1]);
	cmd.cntid = 2059;
	identify_cmd_encode(&slots[0].sqe, 0, &cmd);
	EXPECT_EQ(41, identify_ctrls_find(&slots[0], cntlids));
	EXPECT_EQ(2059, cntlids[0]);
	EXPECT_EQ(2099, cntlids[40]);
	target.ctrls = NULL;
	target.ctrl_count = 0;
	free(other);
	free(discovery);
	tear_down();
}

static void log_judges_page_length_and_offset(void)
{
	set_up(CTRL_TYPE_IO);
	expect_status(NVME_SC_INVALID_LOG_PAGE, get_log(0x7e, 512, 0, false));
	expect_status(NVME_SC_INVALID_LOG_PAGE, get_log(LOG_DISCOVERY, 512, 0, false));
	expect_status(NVME_SC_INVALID_FIELD,
		      get_log(LOG_ERROR, snapshot->limits.transfer_max_bytes + 4, 0, false));
	expect_status(NVME_SC_INVALID_FIELD, get_log(LOG_FIRMWARE, 512, 2, false));
	expect_status(NVME_SC_SUCCESS, get_log(LOG_FIRMWARE, 1024, 0, false));
	EXPECT_EQ(1, data[0]);
	for (unsigned i = 512; i < 1024; i++)
		EXPECT_EQ(0, data[i]);
	expect_status(NVME_SC_SUCCESS, get_log(LOG_FIRMWARE, 4, 512, false));
	expect_status(NVME_SC_INVALID_FIELD, get_log(LOG_FIRMWARE, 4, 516, false));
	expect_status(NVME_SC_SUCCESS, get_log(LOG_SUPPORTED, 1024, 0, false));
	EXPECT_EQ(1, data[LOG_ANA * 4]);
	EXPECT_EQ(0, data[LOG_DISCOVERY * 4]);
	expect_status(NVME_SC_SUCCESS, get_log(LOG_EFFECTS, 4096, 0, false));
	EXPECT_EQ(LOG_EFFECT_SUPPORTED, data[NVME_ADMIN_IDENTIFY * 4]);
	EXPECT_EQ(0, data[NVME_ADMIN_CREATE_SQ * 4]);
	EXPECT_EQ(LOG_EFFECT_SUPPORTED | LOG_EFFECT_CHANGES_DATA, data[1024 + NVME_IO_WRITE * 4]);
	expect_status(NVME_SC_SUCCESS, get_log(LOG_ANA, 256, 0, false));
	EXPECT_EQ(2, data[8]);
	tear_down();
	set_up(CTRL_TYPE_DISCOVERY);
	expect_status(NVME_SC_INVALID_LOG_PAGE, get_log(LOG_ANA, 512, 0, false));
	expect_status(NVME_SC_INVALID_LOG_PAGE, get_log(LOG_CHANGED_NS, 512, 0, false));
	tear_down();
}

/* The controller is about to end: the object of the page was removed. */
static void log_of_what_was_removed_is_refused(void)
{
	set_up(CTRL_TYPE_IO);
	ctrl->port = NULL;
	expect_status(NVME_SC_INTERNAL, get_log(LOG_ANA, 256, 0, false));
	EXPECT(responded == &slots[0] && (slots[0].status.value & NVME_STATUS_DNR) == 0);
	expect_status(NVME_SC_SUCCESS, get_log(LOG_FIRMWARE, 512, 0, false));
	tear_down();
	set_up(CTRL_TYPE_DISCOVERY);
	expect_status(NVME_SC_INTERNAL, get_log(LOG_DISCOVERY, 1024, 0, false));
	ctrl->port = NULL;
	expect_status(NVME_SC_INTERNAL, get_log(LOG_DISCOVERY, 1024, 0, false));
	tear_down();
}

static void features_are_judged(void)
{
	struct nvme_sqe sqe = {0};

	set_up(CTRL_TYPE_IO);
	expect_status(NVME_SC_INVALID_FIELD, get_feature(0x77, 0, 0, 0));
	expect_status(NVME_SC_INVALID_FIELD, get_feature(FEATURE_QUEUE_COUNT, 4, 0, 0));
	expect_status(NVME_SC_INVALID_FIELD, set_feature(0x77, 0, 0));
	feature_set_encode(&sqe, FEATURE_ASYNC_EVENT, 0);
	sqe.cdw10 = le32_of(le32_get(sqe.cdw10) | 1u << 31);
	expect_status(NVME_SC_FEATURE_NOT_SAVEABLE, run(0, feature_set_prepare, sqe, 0));
	feature_set_encode(&sqe, FEATURE_ASYNC_EVENT, 0);
	sqe.nsid = le32_of(1);
	expect_status(NVME_SC_FEATURE_NOT_NS_SPECIFIC, run(0, feature_set_prepare, sqe, 0));
	feature_get_encode(&sqe, FEATURE_RESERVATION_MASK, 0);
	sqe.nsid = le32_of(2);
	expect_status(NVME_SC_INVALID_FIELD, run(0, feature_get_prepare, sqe, 0));
	EXPECT_EQ(SQE_BYTE_NSID, slots[0].error_byte);
	expect_status(NVME_SC_SUCCESS, set_feature(FEATURE_VOLATILE_CACHE, 1, 0));
	expect_status(NVME_SC_FEATURE_NOT_CHANGEABLE, set_feature(FEATURE_VOLATILE_CACHE, 0, 0));
	expect_status(NVME_SC_CMD_SEQUENCE, set_feature(FEATURE_HOST_ID, 1, 0));
	expect_status(NVME_SC_INVALID_FIELD, get_feature(FEATURE_HOST_ID, 0, 0, 8));
	expect_status(NVME_SC_SUCCESS, get_feature(FEATURE_HOST_ID, 0, 1, 16));
	EXPECT_EQ(0x5a, data[15]);
	expect_status(NVME_SC_SGL_INVALID_DATA_LEN, get_feature(FEATURE_HOST_ID, 0, 1, 8));
	snapshot->limits.kato_max_ms = 1000;
	expect_status(NVME_SC_KEEP_ALIVE_INVALID, set_feature(FEATURE_KEEP_ALIVE, 1001, 0));
	tear_down();
	set_up(CTRL_TYPE_DISCOVERY);
	expect_status(NVME_SC_SUCCESS, get_feature(FEATURE_KEEP_ALIVE, 0, 0, 0));
	expect_status(NVME_SC_INVALID_FIELD, get_feature(FEATURE_QUEUE_COUNT, 0, 0, 0));
	expect_status(NVME_SC_SUCCESS,
		      set_feature(FEATURE_ASYNC_EVENT, ASYNC_MASK_DISCOVERY_CHANGE | 0xfff, 0));
	EXPECT_EQ(ASYNC_MASK_DISCOVERY_CHANGE, ctrl->event_mask);
	tear_down();
}

static void on_manage(void *arg, struct manage_request *request)
{
}

/* A right is not granted when no manager can execute its commands. */
static void rights_need_a_manager(void)
{
	struct ctrl_identity identity;

	for (unsigned i = 0; i < 2; i++) {
		set_up(CTRL_TYPE_IO);
		ctrl->rights = HOST_RIGHT_FORMAT | HOST_RIGHT_NAMESPACES;
		target.manage = i == 0 ? NULL : on_manage;
		EXPECT_EQ(i == 1, ctrl_has_right(ctrl, HOST_RIGHT_FORMAT));
		EXPECT(!ctrl_has_right(ctrl, HOST_RIGHT_LABEL));
		expect_status(NVME_SC_SUCCESS, identify(IDENTIFY_CTRL, 0, 0, 0));
		EXPECT_EQ(0, identify_ctrl_decode(data, &identity));
		EXPECT_EQ(i == 1, identity.has_format);
		EXPECT_EQ(i == 1, identity.has_ns_management);
		target.manage = NULL;
		tear_down();
	}
}

static void features_keep_what_is_set(void)
{
	set_up(CTRL_TYPE_IO);
	expect_status(NVME_SC_SUCCESS, set_feature(FEATURE_QUEUE_COUNT, 3 | 4 << 16, 0));
	EXPECT_EQ(3 | 3 << 16, slots[0].result);
	expect_status(NVME_SC_SUCCESS, set_feature(FEATURE_QUEUE_COUNT, 63 | 63 << 16, 0));
	EXPECT_EQ(7 | 7 << 16, slots[0].result);
	expect_status(NVME_SC_INVALID_FIELD, set_feature(FEATURE_QUEUE_COUNT, 0xffff, 0));
	ctrl->io_queue_count = 1;
	expect_status(NVME_SC_CMD_SEQUENCE, set_feature(FEATURE_QUEUE_COUNT, 0, 0));
	ctrl->io_queues_granted = 2;
	expect_status(NVME_SC_SUCCESS, get_feature(FEATURE_QUEUE_COUNT, FEATURE_CURRENT, 0, 0));
	EXPECT_EQ(1 | 1 << 16, slots[0].result);
	expect_status(NVME_SC_SUCCESS, get_feature(FEATURE_QUEUE_COUNT, FEATURE_SAVED, 0, 0));
	EXPECT_EQ(7 | 7 << 16, slots[0].result);
	expect_status(NVME_SC_SUCCESS, get_feature(FEATURE_QUEUE_COUNT, FEATURE_SUPPORTED, 0, 0));
	EXPECT_EQ(FEATURE_CAN_CHANGE, slots[0].result);
	memset(data, 0, 512);
	data[0] = 1;
	expect_status(NVME_SC_SUCCESS, set_feature(FEATURE_HOST_BEHAVIOR, 0, 512));
	expect_status(NVME_SC_SUCCESS, get_feature(FEATURE_HOST_BEHAVIOR, 0, 0, 512));
	EXPECT_EQ(1, data[0]);
	EXPECT_EQ(0, data[511]);
	expect_status(NVME_SC_SUCCESS, get_feature(FEATURE_HOST_BEHAVIOR, 1, 0, 512));
	EXPECT(data_is_zero(512));
	data[0] = 2;
	expect_status(NVME_SC_INVALID_FIELD, set_feature(FEATURE_HOST_BEHAVIOR, 0, 512));
	tear_down();
}

static void event_is_reported_once_until_its_page_is_read(void)
{
	set_up(CTRL_TYPE_IO);
	EXPECT(hold_event_request(1));
	EXPECT_EQ(0, inflight[0].count);
	EXPECT(hold_event_request(2));
	ctrl_event_note_changed_ns(ctrl, 7);
	ctrl_event_note_changed_ns(ctrl, 3);
	ctrl_event_note_changed_ns(ctrl, 7);
	ctrl_event_raise(ctrl, CTRL_EVENT_NS_ATTRIBUTE);
	EXPECT(responded == NULL);
	/* Not enabled: the event stays pending. */
	set_feature(FEATURE_ASYNC_EVENT, ASYNC_MASK_NS_ATTRIBUTE, 0);
	EXPECT_EQ(SLOT_RESPONDING, slots[1].state);
	EXPECT_EQ(2 | 0 << 8 | LOG_CHANGED_NS << 16, slots[1].result);
	EXPECT_EQ(SLOT_EXECUTING, slots[2].state);
	ctrl_event_raise(ctrl, CTRL_EVENT_NS_ATTRIBUTE);
	EXPECT_EQ(SLOT_EXECUTING, slots[2].state);
	/* RAE was set: nothing is cleared. */
	get_log(LOG_CHANGED_NS, 4096, 0, true);
	EXPECT_EQ(3, data[0]);
	EXPECT_EQ(7, data[4]);
	EXPECT_EQ(0, data[8]);
	EXPECT_EQ(SLOT_EXECUTING, slots[2].state);
	/* Read from the start: all pending changes have been seen. */
	get_log(LOG_CHANGED_NS, 4096, 0, false);
	EXPECT_EQ(3, data[0]);
	EXPECT_EQ(SLOT_EXECUTING, slots[2].state);
	get_log(LOG_CHANGED_NS, 4096, 0, false);
	EXPECT(data_is_zero(4096));
	ctrl_event_raise(ctrl, CTRL_EVENT_NS_ATTRIBUTE);
	EXPECT_EQ(SLOT_RESPONDING, slots[2].state);
	/* A later part of the page: changes since then are reported afterwards. */
	EXPECT(hold_event_request(3));
	ctrl_event_note_changed_ns(ctrl, 9);
	ctrl_event_raise(ctrl, CTRL_EVENT_NS_ATTRIBUTE);
	EXPECT_EQ(SLOT_EXECUTING, slots[3].state);
	get_log(LOG_CHANGED_NS, 4, 4, false);
	EXPECT_EQ(SLOT_RESPONDING, slots[3].state);
	EXPECT_EQ(1, ctrl->changed_count);
	tear_down();
}

static void event_requests_are_limited_aborted_and_flushed(void)
{
	set_up(CTRL_TYPE_IO);
	for (unsigned i = 1; i <= CTRL_AER_MAX; i++)
		EXPECT(hold_event_request(i));
	EXPECT(!hold_event_request(CTRL_AER_MAX + 1));
	expect_status(NVME_SC_AER_LIMIT, slots[CTRL_AER_MAX + 1].status);
	slot_cancel(&slots[2]);
	expect_status(NVME_SC_ABORT_REQUESTED, slots[2].status);
	EXPECT_EQ(SLOT_RESPONDING, slots[2].state);
	EXPECT_EQ(SLOT_EXECUTING, slots[3].state);
	EXPECT_EQ(CTRL_AER_MAX - 1, ctrl->aer_count);
	ctrl_events_flush(ctrl, NVME_SC_ABORT_SQ_DELETION);
	EXPECT_EQ(0, ctrl->aer_count);
	expect_status(NVME_SC_ABORT_SQ_DELETION, slots[CTRL_AER_MAX].status);
	/* A request that came during the controller's reset ends with the reset. */
	EXPECT(hold_event_request(1));
	ctrl_events_reset(ctrl);
	EXPECT_EQ(0, ctrl->aer_count);
	EXPECT_EQ(SLOT_RESPONDING, slots[1].state);
	expect_status(NVME_SC_ABORT_SQ_DELETION, slots[1].status);
	tear_down();
}

static void shutdown_event_is_immediate(void)
{
	set_up(CTRL_TYPE_IO);
	set_feature(FEATURE_ASYNC_EVENT, ASYNC_MASK_SHUTDOWN, 0);
	/* Without a pending request the event is lost. */
	ctrl_event_raise(ctrl, CTRL_EVENT_SHUTDOWN);
	EXPECT(hold_event_request(1));
	ctrl_event_raise(ctrl, CTRL_EVENT_SHUTDOWN);
	EXPECT_EQ(SLOT_RESPONDING, slots[1].state);
	EXPECT_EQ(ASYNC_TYPE_IMMEDIATE, slots[1].result);
	EXPECT_EQ(0, ctrl->events_reported);
	tear_down();
}

static void changed_list_overflows(void)
{
	set_up(CTRL_TYPE_IO);
	for (uint32_t nsid = LOG_CHANGED_NS_MAX + 1; nsid >= 1; nsid--)
		ctrl_event_note_changed_ns(ctrl, nsid);
	get_log(LOG_CHANGED_NS, 4096, 0, false);
	EXPECT_EQ(0xff, data[0]);
	EXPECT_EQ(0xff, data[3]);
	EXPECT_EQ(0, data[4]);
	tear_down();
}

/* Updates the controller as a swap does, then restores it. */
static void tell(struct snapshot *second)
{
	const struct subsystem *subsystem = ctrl->subsystem;
	const struct port *port = ctrl->port;
	struct delta *delta;

	EXPECT_EQ(0, delta_prepare(snapshot, second, &delta));
	ctrl_swap(ctrl, delta);
	ctrl_events_of_swap(ctrl, delta);
	delta_destroy(delta);
	ctrl->subsystem = subsystem;
	ctrl->port = port;
	parts_free(second);
}

/* Returns the events for the host when a second snapshot has these namespaces and this port. */
static uint32_t compare(struct ns *now_ns, unsigned count, struct ana_group_state *ana,
			unsigned ana_count)
{
	struct subsystem now = was;
	struct subsystem *now_list[] = {&now};
	struct port now_port = {.id = 1, .ana = ana, .ana_count = ana_count};
	struct snapshot second = *snapshot;

	now.namespaces = now_ns;
	now.ns_count = count;
	second.subsystems = now_list;
	second.ports = &now_port;
	ctrl_events_reset(ctrl);
	tell(&second);
	return ctrl->events;
}

static void new_snapshot_raises_what_changed(void)
{
	struct ana_group_state ana[] = {{2, ANA_INACCESSIBLE}, {7, ANA_INACCESSIBLE}};
	struct ns now[3];

	set_up(CTRL_TYPE_IO);
	memcpy(now, was_ns, sizeof(was_ns));
	now[2] = (struct ns){.nsid = 9, .ana_group = 1};
	EXPECT_EQ(0, compare(now, 2, NULL, 0));
	EXPECT_EQ(0, ctrl->changed_count);
	EXPECT_EQ(CTRL_EVENT_NS_ATTRIBUTE, compare(now, 3, NULL, 0));
	EXPECT_EQ(1, ctrl->changed_count);
	EXPECT_EQ(9, ctrl->changed_nsids[0]);
	EXPECT_EQ(CTRL_EVENT_NS_ATTRIBUTE, compare(now, 1, NULL, 0));
	EXPECT_EQ(3, ctrl->changed_nsids[0]);
	EXPECT_EQ(CTRL_EVENT_NS_ATTRIBUTE, compare(now + 1, 2, NULL, 0));
	EXPECT_EQ(2, ctrl->changed_count);
	EXPECT_EQ(1, ctrl->changed_nsids[0]);
	EXPECT_EQ(9, ctrl->changed_nsids[1]);
	EXPECT_EQ(CTRL_EVENT_ANA_CHANGE, compare(now, 2, ana, 1));
	/* A group without namespaces of the host is not reported to the host. */
	EXPECT_EQ(0, compare(now, 2, ana + 1, 1));
	now[0].ana_group = 5;
	EXPECT_EQ(CTRL_EVENT_ANA_CHANGE | CTRL_EVENT_NS_ATTRIBUTE, compare(now, 2, NULL, 0));
	EXPECT_EQ(1, ctrl->changed_count);
	EXPECT_EQ(now[0].nsid, ctrl->changed_nsids[0]);
	now[0] = was_ns[0];
	now[1].block_count++;
	EXPECT_EQ(CTRL_EVENT_NS_ATTRIBUTE, compare(now, 2, NULL, 0));
	EXPECT_EQ(3, ctrl->changed_nsids[0]);
	tear_down();
}

/* The allow-list has changed, also when only the last host was added or removed. */
static void delta_knows_of_every_host(void)
{
	static char hosts[][NVME_NQN_BYTES] = {"nqn.a", "nqn.b", "nqn.c"};
	static char others[][NVME_NQN_BYTES] = {"nqn.a", "nqn.x", "nqn.c"};
	const struct {
		unsigned before, after;
		bool is_any, has_other, has_changed;
	} rows[] = {
		{2, 2, false, false, false}, {2, 1, false, false, true}, {2, 3, false, false, true},
		{1, 0, false, false, true},  {2, 2, true, false, true},  {2, 2, false, true, true},
		{1, 1, false, true, false},
	};

	for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
		struct subsystem now;
		struct subsystem *now_list[] = {&now};
		struct port now_port = {.id = 1};
		struct snapshot second;
		struct delta *delta;

		was.host_nqns = hosts;
		was.host_count = rows[i].before;
		set_up(CTRL_TYPE_IO);
		now = was;
		/* Entries beyond host_count are ignored. */
		now.host_nqns = rows[i].has_other ? others : hosts;
		now.host_count = rows[i].after;
		now.allows_any_host = rows[i].is_any;
		second = *snapshot;
		second.subsystems = now_list;
		second.ports = &now_port;
		EXPECT_EQ(0, delta_prepare(snapshot, &second, &delta));
		EXPECT_EQ(rows[i].has_changed, delta->subsystems[0].has_hosts);
		delta_destroy(delta);
		parts_free(&second);
		tear_down();
		was.host_nqns = NULL;
		was.host_count = 0;
	}
}

static void discovery_controller_hears_of_new_generations(void)
{
	struct subsystem now = was;
	struct subsystem *now_list[] = {&now};
	struct port now_port = {.id = 1};
	struct snapshot second;

	set_up(CTRL_TYPE_DISCOVERY);
	set_feature(FEATURE_ASYNC_EVENT, ASYNC_MASK_DISCOVERY_CHANGE, 0);
	second = *snapshot;
	second.subsystems = now_list;
	second.ports = &now_port;
	EXPECT(hold_event_request(1));
	tell(&second);
	EXPECT_EQ(SLOT_EXECUTING, slots[1].state);
	second.discovery_generation++;
	tell(&second);
	EXPECT_EQ(SLOT_RESPONDING, slots[1].state);
	EXPECT_EQ(2 | 0xf0 << 8 | LOG_DISCOVERY << 16, slots[1].result);
	tear_down();
}

int main(void)
{
	TAP_RUN(identify_answers_by_nsid);
	TAP_RUN(identify_judges_cns_and_csi);
	TAP_RUN(ctrl_list_ends_when_it_is_full);
	TAP_RUN(log_judges_page_length_and_offset);
	TAP_RUN(log_of_what_was_removed_is_refused);
	TAP_RUN(features_are_judged);
	TAP_RUN(rights_need_a_manager);
	TAP_RUN(features_keep_what_is_set);
	TAP_RUN(event_is_reported_once_until_its_page_is_read);
	TAP_RUN(event_requests_are_limited_aborted_and_flushed);
	TAP_RUN(shutdown_event_is_immediate);
	TAP_RUN(changed_list_overflows);
	TAP_RUN(new_snapshot_raises_what_changed);
	TAP_RUN(delta_knows_of_every_host);
	TAP_RUN(discovery_controller_hears_of_new_generations);
	return tap_end();
}
