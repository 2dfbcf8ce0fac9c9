/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A medium that wraps another and misbehaves by rule, for tests: "fault:RULE[+RULE...]@SPEC". Any
 * reactor; counters are atomic. Allocates an inner operation per command.
 *
 * RULE is KIND[:OPTION=VALUE...]. Kinds: fail (error, nothing done), delay (done ms milliseconds
 * later), stuck (a delay that cannot be cancelled), tear (a write of the first half of the blocks,
 * rounded down, then an error), split (a read or write of the first half, the rest ms milliseconds
 * later), corrupt (a read with one bit flipped), lose (acknowledged, never done), late (opens ms
 * milliseconds later; fault_late.c). Options: op=read|write|flush|zero|discard|any|fua|open (fua:
 * durable writes and zeroes; default: all that the kind can act on, write for lose), after=N (the
 * first N pass), every=N (each Nth), prob=P (per cent, with seed=S), count=N (at most N times),
 * errno=NAME (fail, tear; default EIO), ms=N (delay, stuck, split). Rules are checked in order.
 * Delays add up; the first rule of another kind that acts ends the check.
 */
#include "volume/fault.h"

#include "base/clock.h"
#include "volume/fault_late.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct fault_rule {
	struct fault_rule_text text;
	_Atomic uint64_t matched; /* matching operations so far */
	_Atomic uint64_t acted;
};

struct fault_media {
	struct media media;
	unsigned rule_count;
	struct fault_rule rules[];
};

/* The state of one operation; its context holds the pointer. */
struct fault_io {
	struct media_io inner;
	struct media_io *outer;
	struct reactor_timer timer;
	bool is_waiting;                    /* the timer is armed */
	int result;                         /* -ECANCELED once the operation is cancelled */
	const struct fault_rule_text *rule; /* the rule that acts, other than delays; NULL: none */
	uint64_t luck;                      /* random number: selects the bit that corrupt flips */
	bool is_rest;                       /* split: the first half is done */
	bool is_stuck;                      /* the operation cannot be cancelled while it waits */
	struct iovec iov[];                 /* tear, split: the part that is done */
};

struct fault_context {
	struct fault_io *fio; /* NULL: the operation has ended */
};
MEDIA_IO_FITS(struct fault_context);

static struct fault_context *fault_context(struct media_io *io)
{
	return (struct fault_context *)(void *)io->context;
}

/* Has no state, so that the same seed and order of operations give the same faults. */
static uint64_t mix(uint64_t seed, uint64_t n)
{
	uint64_t z = seed + (n + 1) * 0x9e3779b97f4a7c15ull;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

/* Counts the operation. Returns whether the rule acts on it. */
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

static void fault_delay_over(struct reactor_timer *timer);

static void fault_end(struct fault_io *fio, int res)
{
	struct media_io *outer = fio->outer;

	fault_context(outer)->fio = NULL;
	free(fio);
	outer->done(outer, res);
}

static void fault_wait(struct fault_io *fio, uint64_t delay_ms)
{
	struct reactor *reactor = fio->outer->reactor;

	fio->is_waiting = true;
	reactor_timer_init(reactor, &fio->timer, fault_delay_over);
	reactor_timer_arm(&fio->timer, reactor_now_ns(reactor) + delay_ms * NS_PER_MS);
}

static void fault_inner_done(struct media_io *inner, int res)
{
	struct fault_io *fio = container_of(inner, struct fault_io, inner);
	enum fault_action action = fio->rule ? fio->rule->action : FAULT_DELAY;

	if (res == 0 && action == FAULT_SPLIT && inner->len_bytes < fio->outer->len_bytes &&
	    !fio->is_rest) {
		fio->is_rest = true;
		fault_wait(fio, fio->rule->delay_ms);
		return;
	}
	if (res == 0 && action == FAULT_TEAR)
		res = fio->rule->error;
	if (res == 0 && action == FAULT_CORRUPT)
		flip_bit(inner, fio->luck);
	fault_end(fio, res);
}

/* Limits the inner operation to len_bytes of the outer one, from skip_bytes on. */
static void fault_cut(struct fault_io *fio, uint64_t skip_bytes, uint64_t len_bytes)
{
	const struct media_io *outer = fio->outer;
	uint64_t skip = skip_bytes, left = len_bytes;
	unsigned count = 0;

	for (unsigned i = 0; i < outer->iov_count && left > 0; i++) {
		struct iovec part = outer->iov[i];
		uint64_t cut = skip < part.iov_len ? skip : part.iov_len;

		skip -= cut;
		part.iov_base = (uint8_t *)part.iov_base + cut;
		part.iov_len -= cut;
		if (part.iov_len > left)
			part.iov_len = left;
		left -= part.iov_len;
		if (part.iov_len > 0)
			fio->iov[count++] = part;
	}
	fio->inner.offset = outer->offset + skip_bytes;
	fio->inner.len_bytes = len_bytes;
	fio->inner.iov = fio->iov;
	fio->inner.iov_count = count;
}

/* Half the blocks of io, rounded down, in bytes. */
static uint64_t half_bytes(const struct media_io *io)
{
	return io->len_bytes / io->media->block_bytes / 2 * io->media->block_bytes;
}

static void fault_perform(struct fault_io *fio)
{
	const struct fault_rule_text *rule = fio->rule;
	uint64_t half = half_bytes(fio->outer);

	if (rule && (rule->action == FAULT_TEAR || rule->action == FAULT_SPLIT) && half > 0)
		fault_cut(fio, 0, half);
	if (rule && rule->action == FAULT_FAIL)
		fault_end(fio, rule->error);
	else if (rule && rule->action == FAULT_LOSE)
		fault_end(fio, 0);
	else if (rule && rule->action == FAULT_TEAR && half == 0)
		fault_end(fio, rule->error);
	else
		media_submit(&fio->inner);
}

static void fault_delay_over(struct reactor_timer *timer)
{
	struct fault_io *fio = container_of(timer, struct fault_io, timer);
	const struct media_io *io = fio->outer;

	fio->is_waiting = false;
	if (fio->result < 0) {
		fault_end(fio, fio->result);
	} else if (fio->is_rest) {
		fault_cut(fio, half_bytes(io), io->len_bytes - half_bytes(io));
		media_submit(&fio->inner);
	} else {
		fault_perform(fio);
	}
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
	fio->inner.deadline_ns = io->deadline_ns;
	fio->inner.done = fault_inner_done;
	return fio;
}

static void fault_submit(struct media_io *io)
{
	struct fault_media *fault = container_of(io->media, struct fault_media, media);
	struct fault_io *fio = fault_io_create(io, io->media->children[0]);
	uint64_t delay_ms = 0;

	if (!fio) {
		io->done(io, -ENOMEM);
		return;
	}
	fault_context(io)->fio = fio;
	for (unsigned i = 0; i < fault->rule_count && !fio->rule; i++) {
		struct fault_rule *rule = &fault->rules[i];

		if (!rule_acts(rule, io, &fio->luck))
			continue;
		fio->is_stuck |= rule->text.action == FAULT_STUCK;
		if (rule->text.action == FAULT_DELAY || rule->text.action == FAULT_STUCK)
			delay_ms += rule->text.delay_ms;
		else
			fio->rule = &rule->text;
	}
	if (delay_ms == 0)
		fault_perform(fio);
	else
		fault_wait(fio, delay_ms);
}

static void fault_cancel(struct media_io *io)
{
	struct fault_io *fio = fault_context(io)->fio;

	if (!fio)
		return;
	if (fio->is_waiting) {
		if (fio->is_stuck)
			return;
		fio->result = -ECANCELED;
		reactor_timer_arm(&fio->timer, reactor_now_ns(io->reactor));
	} else if (fio->inner.media->ops->cancel) {
		fio->inner.media->ops->cancel(&fio->inner);
	}
}

static void fault_close(struct media *media)
{
	free(container_of(media, struct fault_media, media));
}

static const struct media_ops fault_ops = {
	.name = "fault",
	.submit = fault_submit,
	.cancel = fault_cancel,
	.close = fault_close,
};

/* Rules contain no '@', so the first one ends them. The inner spec may be another fault medium. */
static int fault_parse(struct media_spec *spec, char *body, unsigned depth,
		       struct media_error *ret_error)
{
	char *inner = strchr(body, '@');
	struct fault_rules *rules;
	char *rest = body;
	char *piece;
	int res;

	if (!inner)
		return media_fail(ret_error, -EINVAL,
				  "fault: needs the medium it wraps: fault:RULE[+RULE…]@SPEC");
	*inner++ = '\0';
	spec->own = rules = calloc(1, sizeof(*rules));
	if (!rules)
		return media_fail(ret_error, -ENOMEM, "out of memory");
	res = media_spec_add_children(spec, 1, ret_error);
	while (res == 0 && (piece = strsep(&rest, "+"))) {
		if (rules->count == FAULT_RULES_MAX)
			return media_fail(ret_error, -EINVAL, "fault: more than %d rules",
					  FAULT_RULES_MAX);
		res = fault_rule_parse(piece, &rules->rules[rules->count++], ret_error);
	}
	return res < 0 ? res : media_spec_parse_child(spec, 0, inner, depth, ret_error);
}

/* Delays of several rules add up; the first error counts. A medium over an open store opens at
 * once. */
static int fault_wait_open(struct media_opening *opening, struct fault_media *fault,
			   struct media **ret_media, struct media_error *ret_error)
{
	uint64_t delay_ms = 0;
	int error = 0;

	for (unsigned i = 0; i < fault->rule_count && !opening->is_reopen; i++) {
		const struct fault_rule_text *rule = &fault->rules[i].text;

		if (rule->action != FAULT_LATE)
			continue;
		delay_ms += rule->delay_ms;
		error = error ? error : rule->error;
	}
	if (delay_ms > 0)
		return fault_late_open(opening, &fault->media, delay_ms, error, ret_error);
	*ret_media = &fault->media;
	return 0;
}

static int fault_open(struct media_opening *opening, struct media **ret_media,
		      struct media_error *ret_error)
{
	const struct fault_rules *rules = opening->spec->own;
	struct fault_media *fault =
		calloc(1, sizeof(*fault) + rules->count * sizeof(fault->rules[0]));

	if (!fault)
		return media_fail(ret_error, -ENOMEM, "out of memory");
	media_inherit(&fault->media, opening->children[0]);
	/* The inner medium does not know the effects of rules on the data. */
	fault->media.knows_extents = false;
	fault->media.ops = &fault_ops;
	fault->rule_count = rules->count;
	for (unsigned i = 0; i < rules->count; i++)
		fault->rules[i].text = rules->rules[i];
	return fault_wait_open(opening, fault, ret_media, ret_error);
}

const struct media_driver fault_driver = {
	.name = "fault",
	.form = "fault:RULES@SPEC",
	.kind = MEDIA_SPEC_VOLUME,
	.is_wrapper = true,
	.options = "",
	.parse = fault_parse,
	.open = fault_open,
	.cancel = fault_late_cancel,
};
