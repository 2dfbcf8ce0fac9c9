/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Troubles of the tenants' namespace and of a port's address. Chosen by the seed with separate
 * random numbers, so that other choices of a seed do not change. See sim_tenant.h. One thread;
 * strikes from the world's control reactor.
 */
#include "sim_mpath.h"
#include "sim_tenant.h"

#include "base/clock.h"
#include "base/text.h"
#include "host/mpath_internal.h"

#include <string.h>

#define NS_INDEX          1
#define REPLACEMENTS_MAX  (TENANT_LIVES_MAX - 4)
#define TWIN_CNTLID_FIRST 5000
#define TWIN_STAYS        8  /* stays for this many troubles, on average */
#define CLONE_STAYS       60 /* long enough for paths to reach Identify Controller */
#define CLOSE_LIMIT_NS    (60 * NS_PER_S)

/* ---- the choice -------------------------------------------------------------------------------
 */

static uint32_t maybe(struct prng *prng, uint32_t low, uint32_t high)
{
	return prng_one_in(prng, 2) ? low + (uint32_t)prng_below(prng, high - low + 1) : 0;
}

void tenants_choose(struct tenants *tenants, uint64_t seed, bool is_two)
{
	if (seed % 5 != 3)
		return;
	tenants->is_on = true;
	prng_seed(&tenants->prng, seed * 0x94d049bb133111ebull + 13);
	tenants->replace_one_in = maybe(&tenants->prng, 2, 12);
	tenants->format_one_in = maybe(&tenants->prng, 2, 12);
	tenants->twin_one_in = maybe(&tenants->prng, 2, 6);
	tenants->has_second = prng_one_in(&tenants->prng, 2);
	tenants->is_wide = prng_one_in(&tenants->prng, 2) && !is_two;
	tenants->is_clone = prng_one_in(&tenants->prng, 3) && tenants->twin_one_in > 0;
	/* While a namespace is being replaced address by address, no address has evidence against
	 * the wrong machine. */
	if (tenants->twin_one_in > 0)
		tenants->replace_one_in = 0;
	tenants->count = 2 + (unsigned)prng_below(&tenants->prng, TENANTS_MAX - 1);
}

void tenants_shrink(struct tenants *tenants,
		    bool (*feature)(void *arg, unsigned feature, bool is_chosen), void *arg)
{
	if (!feature(arg, TENANT_REPLACEMENTS, tenants->replace_one_in > 0))
		tenants->replace_one_in = 0;
	if (!feature(arg, TENANT_FORMATS, tenants->format_one_in > 0))
		tenants->format_one_in = 0;
	if (!feature(arg, TENANT_TWINS, tenants->twin_one_in > 0)) {
		tenants->twin_one_in = 0;
		tenants->is_clone = false;
	}
	if (!feature(arg, TENANT_SECOND_MPATH, tenants->has_second))
		tenants->has_second = false;
	if (!feature(arg, TENANT_TWO_REACTORS, tenants->is_wide))
		tenants->is_wide = false;
}

/* ---- life -------------------------------------------------------------------------------------
 */

static void on_ready(struct mpath *mpath, void *arg, int res, const struct host_error *error)
{
}

static void on_ns_changed(struct mpath *mpath, void *arg, uint32_t nsid)
{
}

static void on_path_changed(struct mpath *mpath, void *arg, unsigned path, const char *what)
{
	struct mrun *run = arg;

	sim_trace(run->world.sim, "second mpath, path %u: %s", path, what);
	/* As in on_path of sim_mpath.c. */
	if (!run->has_reset)
		mpath->paths[path]->identity.reset_limit = 0;
}

static void second_open(struct mrun *run)
{
	static const struct mpath_callbacks callbacks = {
		.ready = on_ready, .ns_changed = on_ns_changed, .path_changed = on_path_changed};
	struct tenants *tenants = &run->tenants;
	struct mworld *world = &run->world;
	struct reactor_config config = {.cpu = -1, .index = 7};

	CHECK(reactor_create(&config, &tenants->reactor) == 0);
	sim_enter(tenants->reactor);
	CHECK(mpath_open(tenants->reactor, &world->config, world->path_addrs, world->port_count,
			 &callbacks, run, &tenants->mpath) == 0);
	sim_leave(tenants->reactor);
}

static void probe_prepare(const struct probe *from, struct probe *probe)
{
	probe->media.can_discard = true;
	probe->media.reads_zero_after_discard = true;
	probe->prng = from->prng;
	probe->random_delay_us = from->random_delay_us;
	probe->spike_one_in = from->spike_one_in;
	probe->spike_us = from->spike_us;
	probe->is_deaf = from->is_deaf;
}

void tenants_prepare(struct mrun *run)
{
	struct mworld *world = &run->world;

	if (!run->tenants.is_on)
		return;
	probe_prepare(world->ns[0].probe, world->ns[NS_INDEX].probe);
	if (world->target_count == 2)
		probe_prepare(world->ns[0].second_probe, world->ns[NS_INDEX].second_probe);
	mworld_apply(world);
	run->tenants.join = join_create();
	CHECK(run->tenants.join != NULL);
	world->config.join = run->tenants.join;
}

void tenants_start(struct mrun *run)
{
	if (!run->tenants.is_on)
		return;
	if (run->tenants.has_second)
		second_open(run);
	tenants_begin(run);
}

static void on_gone(void *arg)
{
	((struct tenants *)arg)->is_gone = true;
}

static bool is_going(void *arg)
{
	return !((struct tenants *)arg)->is_gone;
}

bool tenants_close(struct mrun *run)
{
	struct tenants *tenants = &run->tenants;
	bool is_closed = true;

	if (tenants->mpath != NULL) {
		sim_enter(tenants->reactor);
		mpath_close(tenants->mpath, on_gone, tenants);
		sim_leave(tenants->reactor);
		is_closed = sim_run_while(run->world.sim, is_going, tenants, CLOSE_LIMIT_NS);
	}
	return is_closed;
}

void tenants_free(struct mrun *run)
{
	for (unsigned i = 0; i < TENANT_LIVES_MAX; i++) {
		if (run->tenants.models[i] != NULL)
			model_destroy(run->tenants.models[i]);
	}
	join_put(run->tenants.join);
}

/* ---- the namespace ----------------------------------------------------------------------------
 */

static bool strikes(struct tenants *tenants, uint32_t one_in)
{
	return one_in > 0 && prng_one_in(&tenants->prng, one_in);
}

static void namespace_return(struct mrun *run)
{
	run->world.ns[NS_INDEX].is_absent = false;
	mworld_replace(&run->world, NS_INDEX);
	run->tenants.replaced++;
}

/* Deletes the namespace, to return later, or replaces it at once. */
static void trouble_replace(struct mrun *run)
{
	bool is_apart = prng_one_in(&run->tenants.prng, 2);

	if (run->world.ns[NS_INDEX].life >= REPLACEMENTS_MAX || !mpath_run_happens(run))
		return;
	if (is_apart)
		run->world.ns[NS_INDEX].is_absent = true;
	else
		namespace_return(run);
	sim_trace(run->world.sim, "namespace %u: %s", NS_INDEX + 1,
		  is_apart ? "deleted" : "replaced");
	mworld_apply_start(&run->world);
}

static void trouble_return(struct mrun *run)
{
	sim_trace(run->world.sim, "namespace %u: made anew", NS_INDEX + 1);
	namespace_return(run);
	mworld_apply_start(&run->world);
}

static void trouble_format(struct mrun *run)
{
	struct mworld *world = &run->world;
	uint32_t old = world->ns[NS_INDEX].probe->media.block_bytes;
	uint32_t block_bytes = old == MWORLD_BLOCK_BYTES ? TENANT_SECTOR : MWORLD_BLOCK_BYTES;

	if (!mpath_run_happens(run))
		return;
	run->tenants.formatted++;
	sim_trace(world->sim, "namespace %u: blocks of %u bytes", NS_INDEX + 1, block_bytes);
	mworld_format(world, NS_INDEX, block_bytes);
	mworld_apply_start(world);
}

/* ---- the wrong machine ------------------------------------------------------------------------
 */

/* A live path to another address than the port's, or NULL. */
static const struct path *path_elsewhere(const struct mrun *run, unsigned port)
{
	const struct mpath *mpath = run->world.mpath;

	for (unsigned i = 0; i < mpath->path_count; i++) {
		const struct path *path = mpath->paths[i];

		if (path->is_usable && path->joined.has_word &&
		    !net_addr_same_host(&path->addr.net, &run->world.addrs[port]))
			return path;
	}
	return NULL;
}

/* The twin becomes a copy of the target, including its state folder. */
static void clone_choose(struct mrun *run, const struct path *elsewhere)
{
	struct mworld_twin *twin = &run->world.twin;

	/* Targets that share their blocks report no instances in this world. */
	twin->has_instance = run->world.target_count == 1 && prng_one_in(&run->tenants.prng, 2);
	if (twin->has_instance) {
		twin->cntlid_first = TWIN_CNTLID_FIRST;
		twin->cntlid_last = TWIN_CNTLID_FIRST + MWORLD_CNTLIDS - 1;
		return;
	}
	/* Every attempt, on either reactor, gets the CNTLID of a live controller: any other CNTLID
	 * would be no evidence. */
	twin->cntlid_first = twin->cntlid_last = elsewhere->joined.cntlid;
}

/* The twin must differ in something that the host can see. */
static void twin_choose(struct mrun *run, const struct path *elsewhere)
{
	struct mworld_twin *twin = &run->world.twin;
	struct prng *prng = &run->tenants.prng;
	unsigned differs = 1 + (unsigned)prng_below(prng, 3);
	bool has_equal_cntlids = prng_one_in(prng, 2);

	twin->is_serial_other = (differs & 1) != 0 && !run->tenants.is_clone;
	twin->is_other = (differs & 2) != 0 && !run->tenants.is_clone;
	twin->cntlid_first = has_equal_cntlids ? 1 : TWIN_CNTLID_FIRST;
	twin->cntlid_last = (uint16_t)(twin->cntlid_first + MWORLD_CNTLIDS - 1);
	twin->has_instance = false;
	if (run->tenants.is_clone)
		clone_choose(run, elsewhere);
}

static void trouble_twin(struct mrun *run)
{
	struct mworld *world = &run->world;
	unsigned port = (unsigned)prng_below(&run->tenants.prng, world->port_count);
	const struct path *elsewhere = path_elsewhere(run, port);

	/* Without a live path elsewhere, any machine at the address would be accepted as the
	 * subsystem. */
	if (elsewhere == NULL)
		return;
	world->twin.port = port;
	twin_choose(run, elsewhere);
	if (!mpath_run_happens(run))
		return;
	run->tenants.twins++;
	sim_trace(world->sim,
		  "a wrong machine at port %u: serial %s, UUIDs %s, CNTLIDs from %u, %s instance",
		  port, world->twin.is_serial_other ? "other" : "same",
		  world->twin.is_other ? "other" : "same", world->twin.cntlid_first,
		  world->twin.has_instance ? "another" : "no");
	mworld_twin_lend(world);
}

/* A machine with another serial number or instance must never be joined. */
static void twin_watch(struct mrun *run)
{
	const struct mworld *world = &run->world;

	for (unsigned i = 0; i < world->mpath->path_count; i++) {
		const struct path *path = world->mpath->paths[i];
		bool is_there =
			net_addr_same_host(&path->addr.net, &world->addrs[world->twin.port]);

		run->tenants.refusals += is_there && path->refusal[0] != '\0';
		if (path->is_usable && strcmp(path->identity.serial, "MPATH2") == 0)
			mpath_run_fail(run, "a controller of another serial number is joined");
		if (path->is_usable && is_there && world->twin.has_instance &&
		    path->joined.cntlid >= TWIN_CNTLID_FIRST)
			mpath_run_fail(run, "a controller of a clone is joined");
	}
}

void tenants_strike(struct mrun *run)
{
	struct tenants *tenants = &run->tenants;
	struct mworld *world = &run->world;

	if (!tenants->is_on)
		return;
	if (world->twin.is_up)
		twin_watch(run);
	if (!mworld_is_steady(world))
		return;
	if (world->twin.is_lent && !world->twin.is_up)
		mworld_twin_start(world);
	else if (world->twin.is_up &&
		 prng_one_in(&tenants->prng, world->twin.has_instance ? CLONE_STAYS : TWIN_STAYS))
		mworld_twin_stop(world);
	else if (world->ns[NS_INDEX].is_absent)
		trouble_return(run);
	else if (strikes(tenants, tenants->replace_one_in))
		trouble_replace(run);
	else if (strikes(tenants, tenants->format_one_in))
		trouble_format(run);
	else if (!world->twin.is_lent && strikes(tenants, tenants->twin_one_in))
		trouble_twin(run);
}

void tenants_heal(struct mrun *run)
{
	struct mworld *world = &run->world;

	if (world->twin.is_up) {
		sim_enter(world->control);
		mworld_twin_stop(world);
		sim_leave(world->control);
		while (!mworld_is_steady(world) && sim_step(world->sim))
			;
	}
	world->twin.is_lent = false;
	if (world->ns[NS_INDEX].is_absent)
		namespace_return(run);
	/* An address that reported a live controller's CNTLID is refused while that controller
	 * lives, so cut all. */
	for (unsigned i = 0; run->tenants.twins > 0 && i < world->port_count; i++)
		(void)sim_net_cut(world->sim, &world->addrs[i]);
}
