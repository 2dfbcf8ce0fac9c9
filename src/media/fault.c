/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A medium that wraps another and misbehaves by rule, for tests: "fault:RULE[+RULE…]@SPEC". Any
 * reactor; counters are atomic. It allocates an inner operation per command: a test tool may.
 *
 * RULE is KIND[:OPTION=VALUE…]. Kinds: fail (ends with an error, nothing done), delay (done ms
 * milliseconds later), tear (a write: the first half of its blocks, rounded down, is done, then it
 * fails), corrupt (a read succeeds with one bit flipped), lose (acknowledged, never done).
 * Options: op=read|write|flush|zero|discard|any|fua (fua: writes and zeroes that must be stable at
 * once; default: all the kind can act on, write for lose), after=N (the first N pass), every=N
 * (each Nth), prob=P (per cent, with seed=S), count=N (acts N times at most), errno=NAME (fail,
 * tear; default EIO), ms=N (delay). Rules are asked in order; delays add up, and the first other
 * rule that acts is the last asked.
 */
#include "media/fault_rule.h"
#include "media/spec.h"

#include "base/clock.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct fault_rule {
	struct fault_rule_text text;
	_Atomic uint64_t matched; /* operations of its kinds seen */
	_Atomic uint64_t acted;
};

struct fault_media {
	struct media media;
	struct media *inner;
	unsigned rule_count;
	struct fault_rule rules[];
};

struct fault_io {
	struct media_io inner;
	struct media_io *outer;
	const struct fault_rule_text *rule; /* what acts on it, or NULL */
	uint64_t luck;                      /* where corrupt flips its bit */
	struct iovec iov[];                 /* tear: the part that is written */
};

/* Stateless, so that the same seed and the same order of operations give the same faults. */
static uint64_t mix(uint64_t seed, uint64_t n)
{
	uint64_t z = seed + (n + 1) * 0x9e3779b97f4a7c15ull;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

/* Counts the operation and says whether the rule acts on it. */
static bool rule_acts(struct fault_rule *rule, const struct media_io *io, uint64_t *ret_luck)
{
	const struct fault_rule_text *text = &rule->text;
	uint64_t n;

	if (!(text->kinds & (1u << io->kind)) || (text->only_fua && !io->is_fua))
		return false;
	n = atomic_fetch_add(&rule->matched, 1);
	if (n < text->after || (n - text->after + 1) % text->every != 0)
		return false;
	*ret_luck = mix(text->seed, n);
	if (text->prob_percent < 100 && *ret_luck % 100 >= text->prob_percent)
		return false;
	return atomic_fetch_add(&rule->acted, 1) < text->count;
}

static void flip_bit(const struct media_io *io, uint64_t luck)
{
	uint64_t bit = (luck >> 8) % (io->len_bytes * 8);
	uint64_t at = bit / 8;

	for (unsigned i = 0; i < io->iov_count; i++) {
		if (at < io->iov[i].iov_len) {
			((uint8_t *)io->iov[i].iov_base)[at] ^= (uint8_t)(1u << (bit % 8));
			return;
		}
		at -= io->iov[i].iov_len;
	}
}

static void fault_end(struct fault_io *fio, int res)
{
	struct media_io *outer = fio->outer;

	outer->inner = NULL;
	free(fio);
	outer->done(outer, res);
}

static void fault_inner_done(struct media_io *inner, int res)
{
	struct fault_io *fio = container_of(inner, struct fault_io, inner);

	if (res == 0 && fio->rule && fio->rule->action == FAULT_TEAR)
		res = fio->rule->error;
	if (res == 0 && fio->rule && fio->rule->action == FAULT_CORRUPT)
		flip_bit(inner, fio->luck);
	fault_end(fio, res);
}

/* Shortens the inner write to the first half of its blocks. False when that is none. */
static bool tear(struct fault_io *fio)
{
	struct media_io *inner = &fio->inner;
	uint64_t blocks = inner->len_bytes / inner->media->block_bytes / 2;
	uint64_t left = blocks * inner->media->block_bytes;
	unsigned count = 0;

	inner->len_bytes = left;
	while (left > 0) {
		fio->iov[count] = inner->iov[count];
		if (fio->iov[count].iov_len > left)
			fio->iov[count].iov_len = left;
		left -= fio->iov[count++].iov_len;
	}
	inner->iov = fio->iov;
	inner->iov_count = count;
	return blocks > 0;
}

static void fault_perform(struct fault_io *fio)
{
	const struct fault_rule_text *rule = fio->rule;

	if (rule && rule->action == FAULT_FAIL)
		fault_end(fio, rule->error);
	else if (rule && rule->action == FAULT_LOSE)
		fault_end(fio, 0);
	else if (rule && rule->action == FAULT_TEAR && !tear(fio))
		fault_end(fio, rule->error);
	else
		media_submit(&fio->inner);
}

static void fault_delay_over(struct reactor_timer *timer)
{
	struct media_io *io = container_of(timer, struct media_io, timer);
	struct fault_io *fio = container_of(io->inner, struct fault_io, inner);

	io->stage = 0;
	if (io->result < 0)
		fault_end(fio, io->result);
	else
		fault_perform(fio);
}

static struct fault_io *fault_io_create(struct media_io *io, struct media *inner)
{
	struct fault_io *fio = calloc(1, sizeof(*fio) + io->iov_count * sizeof(fio->iov[0]));

	if (!fio)
		return NULL;
	fio->outer = io;
	fio->inner.reactor = io->reactor;
	fio->inner.media = inner;
	fio->inner.kind = io->kind;
	fio->inner.is_fua = io->is_fua;
	fio->inner.may_discard = io->may_discard;
	fio->inner.offset = io->offset;
	fio->inner.len_bytes = io->len_bytes;
	fio->inner.iov = io->iov;
	fio->inner.iov_count = io->iov_count;
	fio->inner.done = fault_inner_done;
	return fio;
}

/* io->stage is 1 while a delay runs. */
static void fault_submit(struct media_io *io)
{
	struct fault_media *fault = container_of(io->media, struct fault_media, media);
	struct fault_io *fio = fault_io_create(io, fault->inner);
	uint64_t delay_ms = 0;

	if (!fio) {
		io->done(io, -ENOMEM);
		return;
	}
	io->inner = &fio->inner;
	io->result = 0;
	io->stage = 0;
	for (unsigned i = 0; i < fault->rule_count && !fio->rule; i++) {
		struct fault_rule *rule = &fault->rules[i];

		if (!rule_acts(rule, io, &fio->luck))
			continue;
		if (rule->text.action == FAULT_DELAY)
			delay_ms += rule->text.delay_ms;
		else
			fio->rule = &rule->text;
	}
	if (delay_ms == 0) {
		fault_perform(fio);
		return;
	}
	io->stage = 1;
	reactor_timer_init(io->reactor, &io->timer, fault_delay_over);
	reactor_timer_arm(&io->timer, reactor_now_ns(io->reactor) + delay_ms * NS_PER_MS);
}

static void fault_cancel(struct media_io *io)
{
	struct media_io *inner = io->inner;

	if (io->stage == 1) {
		io->result = -ECANCELED;
		reactor_timer_arm(&io->timer, reactor_now_ns(io->reactor));
	} else if (inner && inner->media->ops->cancel) {
		inner->media->ops->cancel(inner);
	}
}

static void fault_close(struct media *media)
{
	struct fault_media *fault = container_of(media, struct fault_media, media);

	media_close(fault->inner);
	free(fault);
}

static const struct media_ops fault_ops = {
	.name = "fault",
	.submit = fault_submit,
	.cancel = fault_cancel,
	.close = fault_close,
};

struct media *media_fault_inner(const struct media *media)
{
	return media->ops == &fault_ops
		       ? container_of(media, const struct fault_media, media)->inner
		       : NULL;
}

int media_fault_open(const struct media_spec *spec, struct media *inner, struct media **ret_media,
		     struct media_error *ret_error)
{
	struct fault_media *fault =
		calloc(1, sizeof(*fault) + spec->rule_count * sizeof(fault->rules[0]));

	if (!fault)
		return media_fail(ret_error, -ENOMEM, "out of memory");
	fault->media = *inner;
	fault->media.ops = &fault_ops;
	fault->inner = inner;
	fault->rule_count = spec->rule_count;
	for (unsigned i = 0; i < spec->rule_count; i++)
		fault->rules[i].text = spec->rules[i];
	*ret_media = &fault->media;
	return 0;
}
