/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A subsystem on one reactor: its mpath, the pools of split requests, and the answers to questions
 * of other threads. Everything but part_init, part_free and subsystem_ask runs on the reactor. When
 * the mpath is ready, the part asks the controller for the limits of its command set: NVM Command
 * Set 1.1, section 4.1.5.4 (CNS 06h).
 */
#include "base/log.h"
#include "lib/lib.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Limit of one command when the controller reports none. */
#define TRANSFER_MAX_BYTES (1024 * 1024)

/* ---- questions of other threads ------------------------------------------------------------- */

static void ask_msg(struct reactor_msg *msg)
{
	struct part *part = container_of(msg, struct part, msg);

	part->ask->fn(part, part->ask->arg);
}

void subsystem_ask(struct weft_subsystem *subsystem, void (*fn)(struct part *part, void *arg),
		   void *arg)
{
	struct part_ask ask = {.fn = fn, .arg = arg, .left = subsystem->part_count};

	CHECK(reactor_current() == NULL);
	pthread_mutex_init(&ask.lock, NULL);
	pthread_cond_init(&ask.all_answered, NULL);
	pthread_mutex_lock(&subsystem->ask_lock);
	for (unsigned i = 0; i < subsystem->part_count; i++) {
		struct part *part = &subsystem->parts[i];

		part->ask = &ask;
		reactor_post(part->reactor, &part->msg, ask_msg);
	}
	pthread_mutex_lock(&ask.lock);
	while (ask.left > 0)
		pthread_cond_wait(&ask.all_answered, &ask.lock);
	pthread_mutex_unlock(&ask.lock);
	pthread_mutex_unlock(&subsystem->ask_lock);
	pthread_cond_destroy(&ask.all_answered);
	pthread_mutex_destroy(&ask.lock);
}

void part_answer(struct part *part, int res)
{
	struct part_ask *ask = part->ask;

	part->ask = NULL;
	part->answer = res;
	pthread_mutex_lock(&ask->lock);
	if (--ask->left == 0)
		pthread_cond_signal(&ask->all_answered);
	pthread_mutex_unlock(&ask->lock);
}

/* ---- events of the mpath -------------------------------------------------------------------- */

/* Sends a line to the log and to the event callback. */
static void part_tell(const struct part *part, const char *line)
{
	const struct weft_subsystem *subsystem = part->subsystem;

	lib_log(subsystem->weft, LOG_LEVEL_INFO, line);
	if (subsystem->event != NULL)
		subsystem->event(subsystem->event_arg, line);
}

static void on_path_changed(struct mpath *mpath, void *arg, unsigned path, const char *what)
{
	const struct part *part = arg;
	char address[HOST_ADDR_TEXT_BYTES];
	struct path_info info;
	char line[512];

	mpath_path_info(mpath, path, &info);
	snprintf(line, sizeof(line), "reactor %u: path %s: %s", part->index,
		 host_addr_format(&info.addr, address), what);
	part_tell(part, line);
}

static void on_ns_changed(struct mpath *mpath, void *arg, uint32_t nsid)
{
	const struct part *part = arg;
	struct mpath_ns *ns = mpath_ns_find(mpath, nsid);
	struct ns_info info;
	char line[128];

	if (ns == NULL)
		return;
	mpath_ns_info(ns, &info);
	lib_ns_update(part->subsystem, &info);
	snprintf(line, sizeof(line), "reactor %u: namespace %u %s", part->index, nsid,
		 info.is_gone ? "was removed" : "is new or has changed");
	part_tell(part, line);
}

/* ---- opening and closing -------------------------------------------------------------------- */

static void limits_of_ctrl(struct part *part)
{
	const struct ctrl_identity *identity = mpath_identity(part->mpath);
	struct lib_limits *limits = &part->limits;

	*limits = (struct lib_limits){.transfer_max_bytes = TRANSFER_MAX_BYTES,
				      .compare_write_blocks = 1};
	if (identity == NULL)
		return;
	if (identity->transfer_max_bytes != 0)
		limits->transfer_max_bytes = identity->transfer_max_bytes;
	if (identity->atomic_compare_write_blocks != 0)
		limits->compare_write_blocks = identity->atomic_compare_write_blocks;
	limits->has_copy = identity->has_copy;
}

static void identify_done(struct mpath_io *io)
{
	struct part *part = container_of(io, struct part, identify_io);
	struct nvm_ctrl_limits nvm = {0};

	/* A controller that does not support this page sets no limits. */
	if (io->result == MPATH_OK) {
		identify_nvm_ctrl_decode(part->identify_page, &nvm);
		part->limits.write_zeroes_max_bytes = nvm.write_zeroes_max_bytes;
		part->limits.verify_max_bytes = nvm.verify_max_bytes;
		part->limits.deallocate_blocks_max = nvm.dsm_range_blocks_max;
	}
	part->limits.has_lba_status = nvm.reports_allocated;
	part_answer(part, 0);
}

static void identify_ask(struct part *part)
{
	struct identify_cmd identify = {.cns = IDENTIFY_CSI_CTRL, .csi = NVME_CSI_NVM};

	part->identify_iov = (struct iovec){part->identify_page, sizeof(part->identify_page)};
	part->identify_io = (struct mpath_io){
		.direction = HOST_DATA_FROM_CTRL,
		.iov = &part->identify_iov,
		.iov_count = 1,
		.data_bytes = sizeof(part->identify_page),
		.done = identify_done,
	};
	identify_cmd_encode(&part->identify_io.sqe, 0, &identify);
	mpath_submit_admin(part->mpath, &part->identify_io);
}

static void on_ready(struct mpath *mpath, void *arg, int res, const struct host_error *error)
{
	struct part *part = arg;
	uint32_t nsid = 0;

	if (res != 0) {
		part->error = *error;
		part_answer(part, res);
		return;
	}
	for (struct mpath_ns *ns; (ns = mpath_ns_next(mpath, nsid)) != NULL;) {
		struct ns_info info;

		mpath_ns_info(ns, &info);
		lib_ns_update(part->subsystem, &info);
		nsid = info.nsid;
	}
	limits_of_ctrl(part);
	identify_ask(part);
}

void part_open(struct part *part, void *arg)
{
	static const struct mpath_callbacks callbacks = {
		.ready = on_ready,
		.ns_changed = on_ns_changed,
		.path_changed = on_path_changed,
	};
	struct weft_subsystem *subsystem = part->subsystem;
	struct mpath_config config = subsystem->config;
	int res;

	config.seed += part->index;
	config.join = subsystem->join;
	res = mpath_open(part->reactor, &config, subsystem->addrs, subsystem->addr_count,
			 &callbacks, part, &part->mpath);
	if (res != 0) {
		part->mpath = NULL;
		snprintf(part->error.text, sizeof(part->error.text), "cannot open: %s",
			 strerror(-res));
		part_answer(part, res);
		return;
	}
	placement_apply(part);
}

static void on_gone(void *arg)
{
	struct part *part = arg;

	part_answer(part, 0);
}

void part_close(struct part *part, void *arg)
{
	struct mpath *mpath = part->mpath;

	part->mpath = NULL;
	if (mpath != NULL)
		mpath_close(mpath, on_gone, part);
	else
		part_answer(part, 0);
}

int part_init(struct part *part, struct weft_subsystem *subsystem, unsigned index)
{
	part->subsystem = subsystem;
	part->index = index;
	part->reactor = subsystem->weft->reactors[index].reactor;
	list_init(&part->free_children);
	list_init(&part->free_bufs);
	list_init(&part->split_waiting);
	list_init(&part->range_waiting);
	part->children = calloc(PART_CHILDREN, sizeof(*part->children));
	part->bufs = calloc(PART_RANGE_BUFS, sizeof(*part->bufs));
	if (part->children == NULL || part->bufs == NULL)
		return -ENOMEM;
	for (unsigned i = 0; i < PART_CHILDREN; i++)
		list_push_back(&part->free_children, &part->children[i].node);
	for (unsigned i = 0; i < PART_RANGE_BUFS; i++)
		list_push_back(&part->free_bufs, &part->bufs[i].node);
	return 0;
}

void part_free(struct part *part)
{
	free(part->children);
	free(part->bufs);
}
