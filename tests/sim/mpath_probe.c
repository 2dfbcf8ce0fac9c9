/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The medium of multipath tests: it records when each write lands, and delays operations on demand.
 * Several probes can share the same bytes: those of two targets, and those before and after a
 * format. One thread.
 */
#include "mpath_world.h"

#include "base/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum probe_stage {
	PROBE_WAITS,
	PROBE_HAS_LANDED
};

/* The context of an operation. */
struct probe_work {
	struct reactor_timer timer;
	int result;
	enum probe_stage stage;
};
MEDIA_IO_FITS(struct probe_work);

static struct probe_work *work_of(const struct media_io *io)
{
	return (struct probe_work *)(void *)io->context;
}

static struct media_io *io_of(struct reactor_timer *timer)
{
	return container_of(container_of(timer, struct probe_work, timer), struct media_io,
			    context);
}

static void probe_copy(const struct media_io *io, uint8_t *bytes)
{
	for (unsigned i = 0; i < io->iov_count; i++) {
		if (io->kind == MEDIA_READ)
			memcpy(io->iov[i].iov_base, bytes, io->iov[i].iov_len);
		else
			memcpy(bytes, io->iov[i].iov_base, io->iov[i].iov_len);
		bytes += io->iov[i].iov_len;
	}
}

struct probe *probe_root(struct probe *probe)
{
	return probe->master != NULL ? probe->master : probe;
}

static void probe_land(struct probe *probe, const struct media_io *io)
{
	probe = probe_root(probe);
	for (uint64_t i = 0; i < io->len_bytes / MWORLD_BLOCK_BYTES; i++) {
		uint64_t block = io->offset / MWORLD_BLOCK_BYTES + i;
		uint64_t meant = probe_value(probe, block) >> 56;

		probe->strays += meant != 0 && meant != probe->life + 1;
		if (probe->landing_count < MWORLD_LANDINGS_MAX)
			probe->landings[probe->landing_count++] = (struct probe_landing){
				reactor_now_ns(probe->reactor), block, probe_value(probe, block)};
	}
}

static bool io_is_dark(const struct media_io *io)
{
	return probe_root(container_of(io->media, struct probe, media))->is_dark;
}

/* Updates the stable bytes after a flush or a write with FUA. */
static void probe_settle(struct probe *root, const struct media_io *io)
{
	if (root->stable == NULL)
		return;
	if (io->kind == MEDIA_FLUSH)
		memcpy(root->stable, root->blocks, root->block_count * MWORLD_BLOCK_BYTES);
	else if (io->is_fua)
		memcpy(root->stable + io->offset, root->blocks + io->offset, io->len_bytes);
}

/* As for a file: after the first failure every flush fails, until the process ends or an
 * administrator forgives the loss. */
static int flush_check(struct probe *root)
{
	if (root->loss != root->forgiven)
		return -EIO;
	if (root->is_failing)
		probe_lose(root);
	if (!root->has_error)
		return 0;
	root->has_error = false;
	root->loss = ++root->world->losses;
	root->loss_ns = sim_now(root->world->sim);
	return -EIO;
}

static void probe_perform(struct media_io *io)
{
	struct probe *probe = container_of(io->media, struct probe, media);

	if (io_is_dark(io)) {
		work_of(io)->result = -ECANCELED;
		return;
	}
	if (io->kind == MEDIA_FLUSH)
		work_of(io)->result = flush_check(probe_root(probe));
	sim_trace(probe->world->sim, "medium: kind %d at %llu: %d", io->kind,
		  (unsigned long long)io->offset, work_of(io)->result);
	if (work_of(io)->result != 0)
		return;
	if (io->kind == MEDIA_READ || io->kind == MEDIA_WRITE)
		probe_copy(io, probe->blocks + io->offset);
	else if (io->kind == MEDIA_WRITE_ZEROES || io->kind == MEDIA_DISCARD)
		memset(probe->blocks + io->offset, 0, io->len_bytes);
	if (io->kind == MEDIA_WRITE)
		probe_land(probe, io);
	probe_settle(probe_root(probe), io);
	if (io->kind != MEDIA_FLUSH && probe->world->on_io != NULL)
		probe->world->on_io(probe->world, probe_root(probe), io);
}

static void probe_finish(struct reactor_timer *timer)
{
	struct media_io *io = io_of(timer);
	struct probe *probe = container_of(io->media, struct probe, media);
	unsigned at = 0;

	while (probe->busy[at] != io)
		at++;
	probe->busy[at] = probe->busy[--probe->under_way];
	if (work_of(io)->result == 0 && work_of(io)->stage == PROBE_WAITS)
		probe_perform(io);
	io->done(io, work_of(io)->result);
}

static void probe_land_without_us(void *arg)
{
	struct media_io *io = arg;

	probe_perform(io);
	work_of(io)->stage = PROBE_HAS_LANDED;
}

/* The kernel completes submitted changes while their process is stopped. */
void probe_freeze(struct probe *probe, struct sim *sim, const struct reactor *reactor,
		  uint64_t until_ns)
{
	for (unsigned i = 0; i < probe->under_way; i++) {
		struct media_io *io = probe->busy[i];

		if (io->reactor == reactor && work_of(io)->result == 0 &&
		    work_of(io)->stage == PROBE_WAITS && io->kind != MEDIA_READ &&
		    work_of(io)->timer.deadline_ns < until_ns)
			sim_at(sim, work_of(io)->timer.deadline_ns, probe_land_without_us, io);
	}
}

static void probe_submit(struct media_io *io)
{
	struct probe *probe = container_of(io->media, struct probe, media);
	uint64_t delay_ns = probe->delay_ns;

	if (probe->random_delay_us > 0)
		delay_ns += prng_below(&probe->prng, probe->random_delay_us + 1) * NS_PER_US;
	if (probe->spike_one_in > 0 && prng_one_in(&probe->prng, probe->spike_one_in))
		delay_ns += prng_below(&probe->prng, probe->spike_us + 1) * NS_PER_US;
	work_of(io)->result = 0;
	work_of(io)->stage = PROBE_WAITS;
	CHECK(probe->under_way < MWORLD_BUSY_MAX);
	probe->busy[probe->under_way++] = io;
	if (io->kind == MEDIA_WRITE) {
		probe->writes_begun++;
		delay_ns += probe->next_delay_ns;
		probe->next_delay_ns = 0;
	} else if (io->kind == MEDIA_READ) {
		probe->reads_begun++;
	}
	reactor_timer_init(io->reactor, &work_of(io)->timer, probe_finish);
	reactor_timer_arm(&work_of(io)->timer, reactor_now_ns(io->reactor) + delay_ns);
}

static void probe_cancel(struct media_io *io)
{
	const struct probe *probe = container_of(io->media, struct probe, media);

	if (probe->is_deaf || !work_of(io)->timer.armed)
		return;
	work_of(io)->result = -ECANCELED;
	reactor_timer_arm(&work_of(io)->timer, reactor_now_ns(io->reactor));
}

/* The last probe that uses the bytes frees them. */
static void probe_put(struct probe *root)
{
	if (--root->users > 0)
		return;
	free(root->blocks);
	free(root->stable);
	free(root);
}

static void probe_close(struct media *media)
{
	struct probe *probe = container_of(media, struct probe, media);

	CHECK(probe->under_way == 0);
	list_remove(&probe->node);
	if (probe->master != NULL) {
		probe_put(probe->master);
		free(probe);
	} else {
		probe_put(probe);
	}
}

static const struct probe *root_of(const struct media *media)
{
	return probe_root(container_of((struct media *)media, struct probe, media));
}

static bool probe_has_lost_writes(const struct media *media)
{
	return root_of(media)->loss != root_of(media)->forgiven;
}

static uint64_t probe_loss(const struct media *media)
{
	return root_of(media)->loss;
}

static void probe_forgive(struct media *media)
{
	struct probe *root = probe_root(container_of(media, struct probe, media));

	root->forgiven = root->loss;
}

static const struct media_ops probe_ops = {
	.name = "probe",
	.submit = probe_submit,
	.cancel = probe_cancel,
	.close = probe_close,
	.has_lost_writes = probe_has_lost_writes,
	.loss = probe_loss,
	.forgive = probe_forgive,
};

struct probe *probe_open(struct mworld *world, uint64_t block_count)
{
	struct probe *probe = calloc(1, sizeof(*probe));

	CHECK(probe != NULL);
	probe->world = world;
	list_push_back(&world->probes, &probe->node);
	probe->users = 1;
	probe->reactor = world->datas[0];
	probe->block_count = block_count;
	probe->blocks = calloc(block_count, MWORLD_BLOCK_BYTES);
	probe->delay_ns = 10 * NS_PER_US;
	probe->media = (struct media){
		.ops = &probe_ops,
		.spec = strdup("probe"),
		.size_bytes = block_count * MWORLD_BLOCK_BYTES,
		.block_bytes = MWORLD_BLOCK_BYTES,
		.buffer_align_bytes = 1,
	};
	CHECK(probe->blocks != NULL && probe->media.spec != NULL);
	return probe;
}

void probe_share(struct probe *probe, struct probe *with)
{
	struct probe *root = probe_root(with);

	CHECK(probe->master == NULL && probe->users == 1);
	free(probe->blocks);
	probe->master = root;
	probe->blocks = root->blocks;
	root->users++;
}

void probe_format(struct probe *probe, uint32_t block_bytes)
{
	probe->media.block_bytes = block_bytes;
}

void probe_make_volatile(struct probe *probe)
{
	CHECK(probe->master == NULL && probe->stable == NULL);
	probe->stable = malloc(probe->block_count * MWORLD_BLOCK_BYTES);
	CHECK(probe->stable != NULL);
	probe->media.has_volatile_cache = true;
	memcpy(probe->stable, probe->blocks, probe->block_count * MWORLD_BLOCK_BYTES);
}

void probe_power_fail(struct probe *probe)
{
	probe_root(probe)->is_dark = true;
}

void probe_power_back(struct probe *probe)
{
	struct probe *root = probe_root(probe);

	CHECK(root->is_dark && root->stable != NULL);
	root->is_dark = false;
	memcpy(root->blocks, root->stable, root->block_count * MWORLD_BLOCK_BYTES);
}

void probe_lose(struct probe *probe)
{
	struct probe *root = probe_root(probe);
	bool has_lost = false;

	for (uint64_t i = 0; i < root->block_count; i++) {
		uint8_t *block = root->blocks + i * MWORLD_BLOCK_BYTES;
		uint8_t *stable = root->stable + i * MWORLD_BLOCK_BYTES;

		if (memcmp(block, stable, MWORLD_BLOCK_BYTES) == 0)
			continue;
		if (prng_one_in(&root->prng, 2)) {
			memcpy(stable, block, MWORLD_BLOCK_BYTES);
			continue;
		}
		memcpy(block, stable, MWORLD_BLOCK_BYTES);
		has_lost = true;
	}
	root->has_error = true;
	if (has_lost && root->world->on_loss != NULL)
		root->world->on_loss(root->world);
}

uint64_t probe_stable_value(const struct probe *probe, uint64_t block)
{
	uint64_t value;

	probe = probe->master != NULL ? probe->master : probe;
	memcpy(&value, probe->stable + block * MWORLD_BLOCK_BYTES, sizeof(value));
	return value;
}

uint64_t probe_value(const struct probe *probe, uint64_t block)
{
	uint64_t value;

	memcpy(&value, probe->blocks + block * MWORLD_BLOCK_BYTES, sizeof(value));
	return value;
}

unsigned probe_landed(const struct probe *probe, uint64_t value, uint64_t *ret_last_ns)
{
	unsigned count = 0;

	for (unsigned i = 0; i < probe->landing_count; i++) {
		if (probe->landings[i].value != value)
			continue;
		count++;
		*ret_last_ns = probe->landings[i].at_ns;
	}
	return count;
}
