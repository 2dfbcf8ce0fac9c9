/* SPDX-License-Identifier: Apache-2.0 */
/*
 * target/rota.c: whose turn it is, what may run, what is refused, what is swept. A model with
 * random steps checks the counts: no entry is lost, none runs twice, and every bound holds.
 */
#include "base/prng.h"
#include "target/rota.h"

#include "tap.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct rota_limits one = {
	.running_per_host = 1,
	.waiting_per_host = 4,
	.waiting_min = 2,
	.waiting_total = 6,
};

static void add(struct rota *rota, const char *nqn, struct rota_entry *entries, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		EXPECT(rota_add(rota, nqn, &entries[i]) == 0);
}

static void hosts_take_turns(void)
{
	struct rota_entry a[3], b[2], c[1];
	struct rota_entry *order[] = {&a[0], &b[0], &c[0], &a[1], &b[1], &a[2]};
	struct rota rota;

	rota_init(&rota, &one);
	add(&rota, "a", a, 3);
	add(&rota, "b", b, 2);
	add(&rota, "c", c, 1);
	for (unsigned i = 0; i < 6; i++) {
		struct rota_entry *next = rota_peek(&rota);
		struct rota_entry *entry = rota_take(&rota);

		EXPECT(next == order[i] && entry == order[i]);
		EXPECT(!rota_is_waiting(entry));
		rota_leave(&rota, entry);
	}
	EXPECT(!rota_take(&rota) && !rota_peek(&rota) && !rota_is_ready(&rota));
	EXPECT(rota.waiting == 0 && list_empty(&rota.held));
}

/* A host that adds work again and again when its work ends does not overtake others. */
static void a_host_that_comes_back_is_the_last(void)
{
	struct rota_entry a[2], b;
	struct rota_entry *first;
	struct rota rota;

	rota_init(&rota, &one);
	add(&rota, "a", a, 1);
	first = rota_take(&rota);
	add(&rota, "b", &b, 1);
	rota_leave(&rota, first);
	add(&rota, "a", &a[1], 1);
	EXPECT(rota_take(&rota) == &b);
	EXPECT(rota_take(&rota) == &a[1]);
	rota_leave(&rota, &a[1]);
	rota_leave(&rota, &b);
}

static void few_of_a_host_run_at_a_time(void)
{
	const struct rota_limits two = {2, 8, 8, 8};
	struct rota_entry a[4], b[1];
	struct rota rota;

	rota_init(&rota, &two);
	add(&rota, "a", a, 4);
	EXPECT(rota_take(&rota) == &a[0] && rota_take(&rota) == &a[1]);
	EXPECT(!rota_take(&rota) && !rota_is_ready(&rota));
	add(&rota, "b", b, 1);
	EXPECT(rota_take(&rota) == &b[0]);
	rota_leave(&rota, &a[1]);
	EXPECT(rota_is_ready(&rota) && rota_take(&rota) == &a[2]);
	EXPECT(!rota_take(&rota));
	rota_leave(&rota, &a[3]); /* one that waits */
	rota_leave(&rota, &a[3]); /* no effect: not waiting any more */
	rota_leave(&rota, &a[0]);
	rota_leave(&rota, &a[2]);
	rota_leave(&rota, &b[0]);
	EXPECT(!rota_take(&rota) && list_empty(&rota.held));
}

static void bounds_hold(void)
{
	struct rota_entry a[5], b[5], c[3], d;
	struct rota rota;

	rota_init(&rota, &one);
	add(&rota, "a", a, 4);
	EXPECT(rota_add(&rota, "a", &a[4]) == -EBUSY);
	EXPECT(!rota_is_waiting(&a[4]));
	rota_leave(&rota, &a[4]); /* no effect: never added */
	add(&rota, "b", b, 2);
	EXPECT(rota_add(&rota, "b", &b[2]) == -EBUSY); /* the total is reached */
	add(&rota, "c", c, 2);                         /* but every host has its minimum */
	EXPECT(rota_add(&rota, "c", &c[2]) == -EBUSY);
	/* Entries that run free their places. */
	EXPECT(rota_take(&rota) == &a[0] && rota_take(&rota) == &b[0]);
	EXPECT(rota_add(&rota, "a", &a[4]) == -EBUSY && rota_add(&rota, "b", &b[2]) == 0);
	add(&rota, "d", &d, 1);
	for (struct rota_entry *entry = a; entry < a + 4; entry++)
		rota_leave(&rota, entry);
	for (struct rota_entry *entry = b; entry < b + 3; entry++)
		rota_leave(&rota, entry);
	rota_leave(&rota, &c[0]);
	rota_leave(&rota, &c[1]);
	rota_leave(&rota, &d);
	EXPECT(rota.waiting == 0 && list_empty(&rota.held) && !rota_is_ready(&rota));
}

static const struct rota_entry *unwanted_from, *unwanted_to;

static bool is_unwanted(const struct rota_entry *entry)
{
	return entry >= unwanted_from && entry < unwanted_to;
}

static void unwanted_ones_are_swept(void)
{
	struct rota_entry all[6];
	struct list unwanted;
	struct rota rota;

	rota_init(&rota, &one);
	add(&rota, "a", &all[0], 3);
	add(&rota, "b", &all[3], 3);
	EXPECT(rota_take(&rota) == &all[0]); /* runs, so it is not swept */
	unwanted_from = &all[0];
	unwanted_to = &all[5];
	rota_sweep(&rota, is_unwanted, &unwanted);
	for (unsigned i = 3; i < 5; i++)
		EXPECT(list_pop_front(&unwanted) == &all[i].node);
	for (unsigned i = 1; i < 3; i++)
		EXPECT(list_pop_front(&unwanted) == &all[i].node);
	EXPECT(list_empty(&unwanted) && rota.waiting == 1);
	EXPECT(!rota_is_waiting(&all[1]));
	EXPECT(rota_take(&rota) == &all[5] && !rota_take(&rota));
	rota_leave(&rota, &all[0]);
	rota_leave(&rota, &all[5]);
	EXPECT(list_empty(&rota.held) && list_empty(&rota.ready));
}

/* ---- at random ------------------------------------------------------------------------------- */

#define HOSTS   4
#define ENTRIES 32

enum where {
	OUT,
	WAITS,
	RUNS,
};

struct model {
	struct rota rota;
	struct rota_entry entries[HOSTS][ENTRIES];
	enum where where[HOSTS][ENTRIES];
};

static unsigned model_count(const struct model *model, unsigned host, enum where where)
{
	unsigned count = 0;

	for (unsigned i = 0; i < ENTRIES; i++)
		count += model->where[host][i] == where;
	return count;
}

static unsigned model_waiting(const struct model *model)
{
	unsigned count = 0;

	for (unsigned host = 0; host < HOSTS; host++)
		count += model_count(model, host, WAITS);
	return count;
}

static void model_add(struct model *model, unsigned host, unsigned i)
{
	const struct rota_limits *limits = &model->rota.limits;
	unsigned waiting = model_count(model, host, WAITS);
	bool has_room =
		waiting < limits->waiting_min || (waiting < limits->waiting_per_host &&
						  model_waiting(model) < limits->waiting_total);
	char nqn[2] = {(char)('a' + host), '\0'};

	EXPECT(rota_add(&model->rota, nqn, &model->entries[host][i]) == (has_room ? 0 : -EBUSY));
	if (has_room)
		model->where[host][i] = WAITS;
}

static void model_take(struct model *model)
{
	struct rota_entry *entry = rota_take(&model->rota);
	size_t at;

	if (!entry) {
		for (unsigned host = 0; host < HOSTS; host++)
			EXPECT(model_count(model, host, WAITS) == 0 ||
			       model_count(model, host, RUNS) ==
				       model->rota.limits.running_per_host);
		return;
	}
	at = (size_t)(entry - &model->entries[0][0]);
	EXPECT(model->where[at / ENTRIES][at % ENTRIES] == WAITS);
	model->where[at / ENTRIES][at % ENTRIES] = RUNS;
	EXPECT(model_count(model, (unsigned)(at / ENTRIES), RUNS) <=
	       model->rota.limits.running_per_host);
}

static void any_order_keeps_the_counts(void)
{
	static struct model model;
	const struct rota_limits limits = {3, 12, 2, 24};
	struct prng prng;

	prng_seed(&prng, 7);
	rota_init(&model.rota, &limits);
	for (unsigned step = 0; step < 20000; step++) {
		unsigned host = (unsigned)prng_below(&prng, HOSTS);
		unsigned i = (unsigned)prng_below(&prng, ENTRIES);

		if (prng_below(&prng, 3) == 0) {
			model_take(&model);
		} else if (model.where[host][i] == OUT) {
			model_add(&model, host, i);
		} else if (prng_below(&prng, 2) == 0) {
			rota_leave(&model.rota, &model.entries[host][i]);
			model.where[host][i] = OUT;
		}
		EXPECT(model.rota.waiting == model_waiting(&model));
	}
	for (unsigned host = 0; host < HOSTS; host++) {
		for (unsigned i = 0; i < ENTRIES; i++)
			rota_leave(&model.rota, &model.entries[host][i]);
	}
	EXPECT(list_empty(&model.rota.held) && list_empty(&model.rota.ready));
}

int main(void)
{
	TAP_RUN(hosts_take_turns);
	TAP_RUN(a_host_that_comes_back_is_the_last);
	TAP_RUN(few_of_a_host_run_at_a_time);
	TAP_RUN(bounds_hold);
	TAP_RUN(unwanted_ones_are_swept);
	TAP_RUN(any_order_keeps_the_counts);
	return tap_end();
}
