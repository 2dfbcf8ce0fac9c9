/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See the header. libweft's instance and subsystem are filled in by hand with the fields that a
 * request needs: the real ones start threads, which the simulated reactor lacks. One thread.
 */
#include "one_io_paths.h"

#include "base/text.h"
#include "lib/lib.h"

#include <stdlib.h>
#include <string.h>

static struct {
	struct paths_config config;
	struct mpath *mpath;
	struct mpath_ns *ns;
	bool is_gone;
	struct iovec iovs[PATHS_COMMANDS_MAX];
	struct mpath_io ios[PATHS_COMMANDS_MAX];
	/* libweft */
	struct weft *weft;
	struct weft_subsystem *subsystem;
	struct weft_ns *weft_ns;
	struct lib_ns lib_ns;
	struct weft_request requests[PATHS_COMMANDS_MAX];
} paths;

/* ---- life ----------------------------------------------------------------------------------- */

static void on_ready(struct mpath *mpath, void *arg, int res, const struct host_error *error)
{
	CHECK(res == 0);
}

static void *made(size_t bytes)
{
	void *memory = calloc(1, bytes);

	CHECK(memory != NULL);
	return memory;
}

static void lib_fill(void)
{
	struct part *part;

	paths.weft = made(sizeof(*paths.weft));
	paths.weft->callbacks = WEFT_CALLBACKS_REACTOR;
	paths.subsystem = made(sizeof(*paths.subsystem) + sizeof(struct part));
	paths.subsystem->weft = paths.weft;
	paths.subsystem->part_count = 1;
	paths.subsystem->limits.transfer_max_bytes = 1024 * 1024;
	part = &paths.subsystem->parts[0];
	part->reactor = paths.config.reactor;
	part->subsystem = paths.subsystem;
	part->mpath = paths.mpath;
	paths.lib_ns.nsid = 1;
	paths.lib_ns.block_bytes = paths.config.block_bytes;
	paths.lib_ns.block_count = paths.config.block_count;
	paths.weft_ns = made(sizeof(*paths.weft_ns) + sizeof(struct mpath_ns *));
	paths.weft_ns->subsystem = paths.subsystem;
	paths.weft_ns->ns = &paths.lib_ns;
	paths.weft_ns->block_bytes = paths.config.block_bytes;
}

void paths_open(const struct paths_config *config)
{
	static const struct mpath_callbacks callbacks = {.ready = on_ready};
	struct mpath_config mpath_config = {
		.policy = config->policy,
		.io_queue_size = config->queue_size,
		.wants_header_digest = config->has_digests,
		.wants_data_digest = config->has_digests,
		.numa_node = -1,
		.seed = 1,
	};

	paths.config = *config;
	host_timeouts_fill(&mpath_config.timeouts, HOST_PROFILE_DEFAULT);
	text_copy(mpath_config.subsystem_nqn, sizeof(mpath_config.subsystem_nqn), config->nqn);
	text_copy(mpath_config.host_nqn, sizeof(mpath_config.host_nqn),
		  "nqn.2026-11.io.weft:one-host");
	CHECK(mpath_open(config->reactor, &mpath_config, config->addrs, config->count, &callbacks,
			 NULL, &paths.mpath) == 0);
	if (config->has_lib)
		lib_fill();
}

bool paths_are_live(void)
{
	struct path_info info;
	struct ns_info ns_info;

	for (unsigned i = 0; i < paths.config.count; i++) {
		mpath_path_info(paths.mpath, i, &info);
		if (info.state != PATH_LIVE)
			return false;
	}
	paths.ns = mpath_ns_find(paths.mpath, 1);
	if (paths.ns == NULL)
		return false;
	/* A handle of libweft is bound to the namespace's identity. */
	mpath_ns_info(paths.ns, &ns_info);
	paths.lib_ns.joined = ns_info.joined;
	return true;
}

static void on_gone(void *arg)
{
	paths.is_gone = true;
}

void paths_close(void)
{
	mpath_close(paths.mpath, on_gone, NULL);
}

bool paths_are_gone(void)
{
	if (paths.is_gone) {
		free(paths.weft_ns);
		free(paths.subsystem);
		free(paths.weft);
		paths.weft_ns = NULL;
		paths.subsystem = NULL;
		paths.weft = NULL;
	}
	return paths.is_gone;
}

/* ---- commands ------------------------------------------------------------------------------- */

static void on_io_done(struct mpath_io *io)
{
	CHECK(io->result == MPATH_OK);
	paths.config.done((unsigned)(io - paths.ios));
}

static void on_request_done(struct weft_request *request)
{
	CHECK(request->result == 0);
	paths.config.done((unsigned)(request - paths.requests));
}

static void request_submit_one(unsigned index, bool is_write, uint64_t block, uint32_t blocks)
{
	struct weft_request *request = &paths.requests[index];

	request->op = is_write ? WEFT_WRITE : WEFT_READ;
	request->block = block;
	request->block_count = blocks;
	request->iov = &paths.iovs[index];
	request->iov_count = 1;
	request->done = on_request_done;
	CHECK(weft_submit(paths.weft_ns, request) == 0);
}

void paths_submit(unsigned index, bool is_write, uint64_t block, uint32_t blocks, void *data)
{
	struct mpath_io *io = &paths.ios[index];
	struct io_cmd cmd = {.first_block = block, .block_count = blocks};

	paths.iovs[index] = (struct iovec){data, (size_t)blocks * paths.config.block_bytes};
	if (paths.config.has_lib) {
		request_submit_one(index, is_write, block, blocks);
		return;
	}
	io_cmd_encode(&io->sqe, is_write ? NVME_IO_WRITE : NVME_IO_READ, 0, &cmd);
	io->direction = is_write ? HOST_DATA_TO_CTRL : HOST_DATA_FROM_CTRL;
	io->iov = &paths.iovs[index];
	io->iov_count = 1;
	io->data_bytes = blocks * paths.config.block_bytes;
	io->done = on_io_done;
	mpath_submit(paths.ns, io);
}
