/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks and their versions. One thread. See sim_model.h for what is judged.
 *
 * Each version has `first_end`, the earliest end of a command that proves that it took effect (its
 * own acknowledgement, or a read that returned it), `bound`, by when it took effect if it ever did,
 * and `last_start`, the latest start of a command that saw it. Version a must come before b when
 * a's end lies before b's last start. Two versions that must each come before the other are a
 * violation (Gibbons and Korach, 1997). Zeroes are not unique: a read of zeroes needs one possible
 * version of zeroes, and proves that version only when no other is possible.
 */
#include "sim_model.h"

#include "sim.h"

#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct version {
	uint64_t value;
	uint64_t start;
	uint64_t bound;
	uint64_t first_end;
	uint64_t last_start;
	uint64_t gone_at;  /* impossible from then on, because the cache was lost */
	bool is_past;      /* cannot come back after a loss of the cache */
	bool is_under_way; /* its command is in flight */
	bool met_loss;     /* the cache was lost while its command was in flight */
};

struct block {
	struct version *versions;
	unsigned count;
	unsigned room;
};

struct model {
	uint64_t block_count;
	bool has_volatile_cache;
	struct block *blocks;
};

static struct version *version_add(struct block *block)
{
	if (block->count == block->room) {
		block->room = block->room ? block->room * 2 : 2;
		block->versions =
			sim_realloc(block->versions, block->room * sizeof(struct version));
		CHECK(block->versions != NULL);
	}
	return &block->versions[block->count++];
}

struct model *model_create(uint64_t block_count, bool has_volatile_cache)
{
	struct model *model = sim_alloc(sizeof(*model));

	CHECK(model != NULL);
	model->block_count = block_count;
	model->has_volatile_cache = has_volatile_cache;
	model->blocks = sim_alloc(block_count * sizeof(*model->blocks));
	CHECK(model->blocks != NULL);
	for (uint64_t i = 0; i < block_count; i++)
		*version_add(&model->blocks[i]) = (struct version){.gone_at = MODEL_NEVER};
	return model;
}

void model_destroy(struct model *model)
{
	for (uint64_t i = 0; i < model->block_count; i++)
		free(model->blocks[i].versions);
	free(model->blocks);
	free(model);
}

static struct block *block_at(const struct model *model, uint64_t block)
{
	CHECK(block < model->block_count);
	return &model->blocks[block];
}

static uint64_t version_end(const struct version *version)
{
	return version->first_end < version->bound ? version->first_end : version->bound;
}

/* `start` distinguishes versions of zeroes: no two commands begin at the same time. */
static struct version *version_find(struct block *block, uint64_t value, uint64_t start)
{
	for (unsigned i = 0; i < block->count; i++) {
		if (block->versions[i].value == value && block->versions[i].start == start)
			return &block->versions[i];
	}
	CHECK(!"a write that was never begun");
	return NULL;
}

void model_write_begin(struct model *model, uint64_t block, uint64_t value, uint64_t now)
{
	*version_add(block_at(model, block)) = (struct version){
		.value = value,
		.start = now,
		.bound = MODEL_NEVER,
		.first_end = MODEL_NEVER,
		.last_start = now,
		.gone_at = MODEL_NEVER,
		.is_under_way = true,
	};
}

/* Versions that must come before the stable one cannot come back. */
static void block_mark_past(struct block *block, const struct version *stable)
{
	for (unsigned i = 0; i < block->count; i++) {
		struct version *version = &block->versions[i];

		if (version != stable && version_end(version) < stable->last_start)
			version->is_past = true;
	}
}

void model_write_done(struct model *model, uint64_t block, uint64_t value, uint64_t start,
		      uint64_t now, bool is_stable)
{
	struct block *at = block_at(model, block);
	struct version *version = version_find(at, value, start);

	version->is_under_way = false;
	version->bound = now;
	/* Acknowledged, but the data may have been in the cache that was lost. */
	if (version->met_loss && !is_stable)
		return;
	if (version->first_end > now)
		version->first_end = now;
	if (is_stable && !version->met_loss)
		block_mark_past(at, version);
}

void model_write_maybe(struct model *model, uint64_t block, uint64_t value, uint64_t start,
		       uint64_t now)
{
	struct version *version = version_find(block_at(model, block), value, start);

	version->is_under_way = false;
	version->bound = now;
}

void model_write_never(struct model *model, uint64_t block, uint64_t value, uint64_t start)
{
	struct block *at = block_at(model, block);
	struct version *version = version_find(at, value, start);

	*version = at->versions[--at->count];
}

/* The version that makes `seen` impossible for a read that ends at `end`, or NULL. */
static const struct version *version_conflict(const struct block *block, const struct version *seen,
					      uint64_t read_start, uint64_t end)
{
	uint64_t seen_end = version_end(seen) < end ? version_end(seen) : end;
	uint64_t seen_start = seen->last_start > read_start ? seen->last_start : read_start;

	for (unsigned i = 0; i < block->count; i++) {
		const struct version *other = &block->versions[i];

		if (other != seen && other->first_end != MODEL_NEVER &&
		    other->first_end < seen_start && seen_end < other->last_start)
			return other;
	}
	return NULL;
}

bool model_read(struct model *model, uint64_t block, uint64_t value, uint64_t start, uint64_t now,
		char why[160])
{
	struct block *at = block_at(model, block);
	const struct version *conflict = NULL;
	struct version *seen = NULL;
	unsigned possible = 0;

	for (unsigned i = 0; i < at->count; i++) {
		struct version *version = &at->versions[i];
		const struct version *found;

		if (version->value != value || version->gone_at < start)
			continue;
		found = version_conflict(at, version, start, now);
		if (found)
			conflict = found;
		possible += found == NULL;
		seen = found ? seen : version;
	}
	if (possible == 0 && conflict)
		snprintf(why, 160, "block %llu: read %llx although %llx came between",
			 (unsigned long long)block, (unsigned long long)value,
			 (unsigned long long)conflict->value);
	else if (possible == 0)
		snprintf(why, 160, "block %llu: read %llx, which it cannot hold (%u versions)",
			 (unsigned long long)block, (unsigned long long)value, at->count);
	if (possible != 1)
		return possible > 1;
	seen->first_end = version_end(seen) < now ? version_end(seen) : now;
	if (seen->last_start < start)
		seen->last_start = start;
	return true;
}

void model_flush(struct model *model, uint64_t start)
{
	for (uint64_t b = 0; b < model->block_count; b++) {
		struct block *block = &model->blocks[b];

		for (unsigned i = 0; i < block->count; i++) {
			if (block->versions[i].first_end < start)
				block_mark_past(block, &block->versions[i]);
		}
	}
}

void model_power_loss(struct model *model, uint64_t now)
{
	for (uint64_t b = 0; b < model->block_count; b++) {
		struct block *block = &model->blocks[b];

		/* A block with one version has that value for sure and cannot change. */
		for (unsigned i = 0; i < block->count && block->count > 1; i++) {
			struct version *version = &block->versions[i];

			if (version->is_past) {
				if (version->gone_at == MODEL_NEVER)
					version->gone_at = now;
				continue;
			}
			version->met_loss = version->is_under_way;
			version->first_end = MODEL_NEVER;
			version->last_start = 0;
			if (!version->is_under_way)
				version->bound = now;
		}
	}
}

void model_forget(struct model *model, uint64_t oldest_start)
{
	for (uint64_t b = 0; b < model->block_count; b++) {
		struct block *block = &model->blocks[b];
		unsigned kept = 0;

		if (block->count == 1)
			continue;
		for (unsigned i = 0; i < block->count; i++) {
			struct version *version = &block->versions[i];
			bool is_gone = false;

			if (version->is_under_way ||
			    (model->has_volatile_cache && !version->is_past)) {
				block->versions[kept++] = *version;
				continue;
			}
			for (unsigned k = 0; k < block->count && !is_gone; k++) {
				const struct version *by = &block->versions[k];

				is_gone = k != i && by->first_end < oldest_start &&
					  version_end(version) < by->last_start;
			}
			if (!is_gone)
				block->versions[kept++] = *version;
		}
		block->count = kept;
	}
}

uint64_t model_guess(const struct model *model, uint64_t block)
{
	const struct block *at = block_at(model, block);
	const struct version *best = &at->versions[0];

	for (unsigned i = 1; i < at->count; i++) {
		const struct version *version = &at->versions[i];

		if (version->first_end != MODEL_NEVER && version->last_start >= best->last_start)
			best = version;
	}
	return best->value;
}

bool model_may_hold(const struct model *model, uint64_t block, uint64_t bits, uint64_t start,
		    uint64_t now)
{
	const struct block *at = block_at(model, block);

	for (unsigned i = 0; i < at->count; i++) {
		if ((at->versions[i].value & bits) != 0 && at->versions[i].gone_at >= start &&
		    !version_conflict(at, &at->versions[i], start, now))
			return true;
	}
	return false;
}

bool model_is_only(const struct model *model, uint64_t block, uint64_t value, uint64_t start)
{
	const struct block *at = block_at(model, block);

	for (unsigned i = 0; i < at->count; i++) {
		const struct version *version = &at->versions[i];

		if (version->value == value || version->gone_at < start)
			continue;
		/* Skip versions that were replaced before the read began. */
		if (!version_conflict(at, version, start, MODEL_NEVER - 1))
			return false;
	}
	return true;
}
