/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tenants: their commands, and how each is judged; see sim_tenant.h. sim_tenant_trouble.c has the
 * troubles of their namespace. One thread.
 */
#include "sim_tenant.h"
#include "sim_mpath.h"

#include "base/clock.h"
#include "host/mpath_internal.h"
#include "wire/io_cmd.h"

#include <inttypes.h>
#include <string.h>

#define NS_INDEX      1 /* of the tenants' namespace in the world */
#define THINK_MAX_US  3000
#define LOOK_AGAIN_US 5000 /* while the namespace is missing */

static void tenant_think(struct tenant *tenant, uint64_t us)
{
	reactor_timer_arm(&tenant->timer, sim_now(tenant->run->world.sim) + us * NS_PER_US);
}

static struct mpath *mpath_of(const struct tenant *tenant)
{
	return tenant->mpath == 0 ? tenant->run->world.mpath : tenant->run->tenants.mpath;
}

/* ---- handles ----------------------------------------------------------------------------------
 */

static bool handle_is_stale(const struct tenant_handle *handle)
{
	struct ns_info info;

	mpath_ns_info(handle->ns, &info);
	return join_ns_is_replaced(info.joined);
}

/* Index of an identity among the namespaces that had the NSID; TENANT_LIVES_MAX: unknown. */
static unsigned life_of(const struct mrun *run, const struct uuid *uuid)
{
	const struct mworld *world = &run->world;
	struct uuid of;

	for (unsigned i = 0; i <= world->ns[NS_INDEX].life; i++) {
		mworld_uuid(world, NS_INDEX, 0, i, &of);
		if (uuid_equal(&of, uuid))
			return i;
	}
	return TENANT_LIVES_MAX;
}

static struct model *model_of(struct mrun *run, unsigned life)
{
	struct model **model = &run->tenants.models[life];

	if (*model == NULL)
		*model = model_create((uint64_t)TENANT_SECTORS * TENANTS_MAX, false);
	return *model;
}

static void handle_keep_old(struct tenant *tenant)
{
	if (tenant->handle.ns != NULL && tenant->old_count < TENANT_HANDLES)
		tenant->old[tenant->old_count++] = tenant->handle;
	tenant->handle.ns = NULL;
}

/* Finds the current namespace. False: none. */
static bool handle_find(struct tenant *tenant)
{
	struct mrun *run = tenant->run;
	struct mpath_ns *ns = mpath_ns_find(mpath_of(tenant), NS_INDEX + 1);
	struct ns_info info;

	if (ns == NULL)
		return false;
	mpath_ns_info(ns, &info);
	if (info.is_gone)
		return false;
	tenant->handle.ns = ns;
	tenant->handle.life = life_of(run, &info.identity.uuid);
	if (tenant->handle.life == TENANT_LIVES_MAX)
		mpath_run_fail(run, "a namespace of the wrong target is used");
	return !run->is_failed;
}

/* ---- judgement --------------------------------------------------------------------------------
 */

static bool names(const struct tenant *tenant, unsigned life, uint64_t offset, uint64_t len_bytes)
{
	uint64_t first = tenant->sector * TENANT_SECTOR;

	return tenant->is_busy && tenant->kind != TENANT_READ && tenant->handle.life == life &&
	       offset >= first &&
	       offset + len_bytes <= first + tenant->sector_count * TENANT_SECTOR;
}

/* An access to the medium: finds the command that it belongs to. */
static void on_io(struct mworld *world, const struct probe *root, const struct media_io *io)
{
	struct mrun *run = container_of(world, struct mrun, world);

	if (root->is_of_twin) {
		mpath_run_fail(run, "namespace %u of the wrong target was %s", root->ns + 1,
			       io->kind == MEDIA_READ ? "read" : "changed");
		return;
	}
	if (root->ns != NS_INDEX || io->kind == MEDIA_READ)
		return;
	for (unsigned i = 0; i < run->tenants.count; i++) {
		struct tenant *tenant = &run->tenants.tenants[i];

		if (names(tenant, root->life, io->offset, io->len_bytes)) {
			tenant->has_changed = true;
			return;
		}
	}
	mpath_run_fail(run,
		       "%" PRIu64 " bytes at %" PRIu64
		       " of namespace %u (number %u of its NSID) change without a command for them",
		       io->len_bytes, io->offset, root->ns + 1, root->life);
}

static void read_judge(struct tenant *tenant)
{
	struct mrun *run = tenant->run;
	struct model *model = model_of(run, tenant->handle.life);
	char why[160];

	for (uint64_t i = 0; i < tenant->sector_count; i++) {
		const uint8_t *sector = tenant->data + i * TENANT_SECTOR;
		uint64_t value;

		memcpy(&value, sector, sizeof(value));
		if (memcmp(sector, sector + sizeof(value), TENANT_SECTOR - sizeof(value)) != 0) {
			mpath_run_fail(run, "sector %" PRIu64 " of a tenant is torn",
				       tenant->sector + i);
			return;
		}
		mpath_hash_add(run, value);
		if (value != 0 && value >> 56 != tenant->handle.life + 1u) {
			mpath_run_fail(run,
				       "a read for namespace %u returned data of namespace %" PRIu64
				       ", which had the same NSID",
				       tenant->handle.life, (value >> 56) - 1);
			return;
		}
		if (!model_read(model, tenant->sector + i, value, tenant->start, run->step, why)) {
			mpath_run_fail(run, "sector %" PRIu64 " of a tenant: %s",
				       tenant->sector + i, why);
			return;
		}
	}
}

static void change_judge(struct tenant *tenant)
{
	struct mrun *run = tenant->run;
	struct model *model = model_of(run, tenant->handle.life);
	bool is_ok = tenant->io.result == MPATH_OK;

	for (uint64_t i = 0; i < tenant->sector_count; i++) {
		if (is_ok)
			model_write_done(model, tenant->sector + i, tenant->value, tenant->start,
					 run->step, true);
		else
			model_write_maybe(model, tenant->sector + i, tenant->value, tenant->start,
					  run->step);
	}
	if (is_ok && !tenant->has_changed)
		mpath_run_fail(run, "a command of a tenant was acknowledged, but changed nothing "
				    "in its namespace");
	/* The namespace is current, and the command was made for another format. */
	if (tenant->io.result == MPATH_STALE && tenant->has_changed &&
	    !handle_is_stale(&tenant->handle))
		mpath_run_fail(
			run,
			"a command of a tenant was reported as not executed, but was executed");
}

/* Judges a command whose handle the host knows to be stale. */
static void stale_judge(struct tenant *tenant)
{
	if (tenant->io.result != MPATH_STALE)
		mpath_run_fail(tenant->run,
			       "a command for a replaced namespace ended with result %d",
			       tenant->io.result);
}

static void on_done(struct mpath_io *io)
{
	struct tenant *tenant = container_of(io, struct tenant, io);
	struct mrun *run = tenant->run;
	bool is_stale = handle_is_stale(&tenant->handle);

	run->step++;
	sim_trace(run->world.sim,
		  "tenant %u: kind %d, namespace %u, sectors %" PRIu64 "+%" PRIu64
		  " in blocks of %u: result %d, status 0x%x",
		  tenant->index, tenant->kind, tenant->handle.life, tenant->sector,
		  tenant->sector_count, tenant->block_bytes, io->result, io->status.value);
	tenant->is_busy = false;
	run->tenants.stale += io->result == MPATH_STALE;
	if (is_stale && (io->result == MPATH_OK || tenant->is_looking_back))
		stale_judge(tenant);
	else if (tenant->kind != TENANT_READ)
		change_judge(tenant);
	else if (io->result == MPATH_OK)
		read_judge(tenant);
	if (tenant->is_sweeping && io->result == MPATH_OK)
		tenant->swept += tenant->sector_count;
	tenant->is_sweeping = tenant->is_looking_back = false;
	tenant_think(tenant, prng_below(&run->tenants.prng, THINK_MAX_US));
}

/* ---- commands ---------------------------------------------------------------------------------
 */

static void sectors_begin(struct tenant *tenant)
{
	struct mrun *run = tenant->run;
	struct model *model = model_of(run, tenant->handle.life);

	tenant->value = tenant->kind == TENANT_WRITE
				? MWORLD_LIFE(tenant->handle.life) | ++run->tenants.next_value
				: 0;
	for (uint64_t i = 0; i < tenant->sector_count; i++)
		model_write_begin(model, tenant->sector + i, tenant->value, tenant->start);
	for (size_t i = 0; i < sizeof(tenant->data); i += sizeof(tenant->value))
		memcpy(tenant->data + i, &tenant->value, sizeof(tenant->value));
}

static void command_encode(struct tenant *tenant, struct host_cmd *cmd)
{
	uint32_t bytes = (uint32_t)tenant->sector_count * TENANT_SECTOR;
	uint64_t block = tenant->sector * TENANT_SECTOR / tenant->block_bytes;
	uint32_t count = bytes / tenant->block_bytes;

	switch (tenant->kind) {
	case TENANT_READ:
		host_cmd_read(cmd, 0, block, count, tenant->data, bytes);
		break;
	case TENANT_WRITE:
		host_cmd_write(cmd, 0, block, count, tenant->data, bytes);
		break;
	case TENANT_ZEROES:
		host_cmd_write_zeroes(cmd, 0, block, count, false);
		break;
	case TENANT_DEALLOCATE:
		dsm_range_encode(tenant->data, 0,
				 &(struct dsm_range){.first_block = block, .block_count = count});
		host_cmd_deallocate(cmd, 0, tenant->data, 1);
		break;
	}
}

static void tenant_send(struct tenant *tenant, enum tenant_kind kind)
{
	struct host_cmd cmd = {0};

	tenant->kind = kind;
	tenant->start = ++tenant->run->step;
	tenant->is_busy = true;
	tenant->has_changed = false;
	if (kind != TENANT_READ)
		sectors_begin(tenant);
	command_encode(tenant, &cmd);
	tenant->iov = (struct iovec){tenant->data, cmd.data_bytes};
	tenant->io = (struct mpath_io){
		.sqe = cmd.sqe,
		.direction = cmd.direction,
		.iov = &tenant->iov,
		.iov_count = cmd.data_bytes > 0 ? 1 : 0,
		.data_bytes = cmd.data_bytes,
		.block_bytes = tenant->block_bytes,
		.done = on_done,
	};
	tenant->run->tenants.commands++;
	mpath_submit(tenant->handle.ns, &tenant->io);
}

static void block_bytes_look(struct tenant *tenant)
{
	struct ns_info info;

	mpath_ns_info(tenant->handle.ns, &info);
	tenant->block_bytes = info.identity.block_bytes;
}

/* Blocks of the tenant itself, up to TENANT_DATA_BYTES; reads may choose another tenant's. */
static void range_choose(struct tenant *tenant, enum tenant_kind kind)
{
	struct prng *prng = &tenant->run->tenants.prng;
	uint64_t per_block = tenant->block_bytes / TENANT_SECTOR;
	uint64_t blocks = TENANT_SECTORS / per_block;
	uint64_t count = 1 + prng_below(prng, TENANT_DATA_BYTES / tenant->block_bytes);
	uint64_t first = prng_below(prng, blocks - count + 1);
	uint64_t owner = kind == TENANT_READ ? prng_below(prng, TENANTS_MAX) : tenant->index;

	tenant->sector = owner * TENANT_SECTORS + first * per_block;
	tenant->sector_count = count * per_block;
}

/* After the troubles: reads all bytes of the tenant, then checks that the old handles are stale. */
static void tenant_sweep(struct tenant *tenant)
{
	if (tenant->swept < TENANT_SECTORS) {
		if (tenant->handle.life != tenant->run->world.ns[NS_INDEX].life) {
			handle_keep_old(tenant);
			tenant_think(tenant, LOOK_AGAIN_US);
			return;
		}
		tenant->sector = tenant->index * TENANT_SECTORS + tenant->swept;
		tenant->sector_count = TENANT_DATA_BYTES / TENANT_SECTOR;
		tenant->is_sweeping = true;
		tenant_send(tenant, TENANT_READ);
	} else if (tenant->olds_seen < tenant->old_count) {
		tenant->handle = tenant->old[tenant->olds_seen++];
		if (!handle_is_stale(&tenant->handle))
			mpath_run_fail(tenant->run,
				       "the handle of a replaced namespace is not stale");
		tenant->is_looking_back = true;
		tenant_send(tenant, TENANT_READ);
	}
}

static void on_tenant_timer(struct reactor_timer *timer)
{
	struct tenant *tenant = container_of(timer, struct tenant, timer);
	struct mrun *run = tenant->run;
	struct prng *prng = &run->tenants.prng;
	enum tenant_kind kind = (enum tenant_kind)prng_below(prng, TENANT_DEALLOCATE + 1);

	if (run->is_failed)
		return;
	if (run->is_healed && tenant->swept == TENANT_SECTORS) {
		tenant_sweep(tenant);
		return;
	}
	/* Sometimes a command uses a handle known to be stale. */
	if (tenant->handle.ns != NULL && handle_is_stale(&tenant->handle) && !prng_one_in(prng, 4))
		handle_keep_old(tenant);
	if (tenant->handle.ns == NULL && !handle_find(tenant)) {
		tenant_think(tenant, LOOK_AGAIN_US);
		return;
	}
	block_bytes_look(tenant);
	if (run->is_healed) {
		tenant_sweep(tenant);
		return;
	}
	range_choose(tenant, kind);
	tenant_send(tenant, kind);
}

bool tenants_are_well(struct mrun *run)
{
	struct tenants *tenants = &run->tenants;

	for (unsigned i = 0; i < tenants->count; i++) {
		const struct tenant *tenant = &tenants->tenants[i];

		if (tenant->is_busy || tenant->swept < TENANT_SECTORS ||
		    tenant->olds_seen < tenant->old_count)
			return false;
	}
	for (unsigned i = 0; tenants->mpath != NULL && i < mpath_path_count(tenants->mpath); i++) {
		if (!tenants->mpath->paths[i]->is_usable)
			return false;
	}
	return true;
}

void tenants_begin(struct mrun *run)
{
	struct tenants *tenants = &run->tenants;

	run->world.on_io = on_io;
	for (unsigned i = 0; i < tenants->count; i++) {
		struct tenant *tenant = &tenants->tenants[i];
		struct reactor *reactor;

		tenant->run = run;
		tenant->index = i;
		tenant->mpath = tenants->has_second ? i % 2 : 0;
		reactor = tenant->mpath == 0 ? run->world.reactor : tenants->reactor;
		reactor_timer_init(reactor, &tenant->timer, on_tenant_timer);
		sim_enter(reactor);
		tenant_think(tenant, 0);
		sim_leave(reactor);
	}
}
