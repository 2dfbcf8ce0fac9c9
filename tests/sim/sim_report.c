/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Output of weft_sim: counters and statuses of all runs, features that were tried, and the line
 * that replays a scenario. One thread.
 */
#include "sim_driver.h"

#include "base/check.h"
#include "wire/status.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

void sim_counter_add(struct sim_counters *counters, const char *name, uint64_t value)
{
	for (unsigned i = 0; i < counters->count; i++) {
		if (strcmp(counters->counters[i].name, name) == 0) {
			counters->counters[i].value += value;
			return;
		}
	}
	CHECK(counters->count < SIM_COUNTERS_MAX);
	counters->counters[counters->count].name = name;
	counters->counters[counters->count++].value = value;
}

unsigned sim_world_index(const struct sim_world_kind *world)
{
	unsigned i = 0;

	while (sim_worlds[i] != world)
		i++;
	return i;
}

const struct sim_world_kind *sim_world_find(const char *name)
{
	for (unsigned i = 0; sim_worlds[i]; i++) {
		if (strcmp(sim_worlds[i]->name, name) == 0)
			return sim_worlds[i];
	}
	return NULL;
}

/* ---- totals ---------------------------------------------------------------------------------- */

void sim_totals_add(struct sim_totals *totals, const struct sim_verdict *verdict)
{
	totals->seeds++;
	totals->simulated_ns += verdict->simulated_ns;
	totals->commands += verdict->commands;
	totals->events += verdict->events;
	for (unsigned i = 0; i < SIM_FEATURES_MAX; i++)
		totals->features[i] += verdict->features_on >> i & 1;
}

void sim_totals_merge(struct sim_totals *totals, const struct sim_totals *from)
{
	totals->seeds += from->seeds;
	totals->simulated_ns += from->simulated_ns;
	totals->commands += from->commands;
	totals->events += from->events;
	for (unsigned i = 0; i < SIM_FEATURES_MAX; i++)
		totals->features[i] += from->features[i];
	for (unsigned i = 0; i < from->counters.count; i++)
		sim_counter_add(&totals->counters, from->counters.counters[i].name,
				from->counters.counters[i].value);
	for (unsigned i = 0; i < SIM_STATUS_MAX; i++)
		totals->counters.statuses[i] += from->counters.statuses[i];
}

static const char *spaced(const char *name, char text[64])
{
	snprintf(text, 64, "%s", name);
	for (char *at = text; *at; at++) {
		if (*at == '_')
			*at = ' ';
	}
	return text;
}

/* Words wrapped at the width of a terminal. */
struct wrapped {
	unsigned column;
};

static void wrapped_add(struct wrapped *wrapped, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void wrapped_add(struct wrapped *wrapped, const char *format, ...)
{
	char text[160];
	va_list args;
	int length;

	va_start(args, format);
	length = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (wrapped->column > 0 && wrapped->column + (unsigned)length > 90) {
		printf(",\n");
		wrapped->column = 0;
	}
	printf("%s%s", wrapped->column == 0 ? "#   " : ", ", text);
	wrapped->column += (unsigned)length + 2;
}

static void wrapped_end(struct wrapped *wrapped)
{
	if (wrapped->column > 0)
		printf("\n");
	wrapped->column = 0;
}

static void totals_print(const struct sim_world_kind *world, const struct sim_totals *totals)
{
	struct wrapped wrapped = {0};
	char text[64];

	printf("# world %s: %" PRIu64 " seeds, %.0f simulated seconds, %" PRIu64
	       " commands, %" PRIu64 " events\n",
	       world->name, totals->seeds, (double)totals->simulated_ns / 1e9, totals->commands,
	       totals->events);
	for (unsigned i = 0; i < totals->counters.count; i++)
		wrapped_add(&wrapped, "%" PRIu64 " %s", totals->counters.counters[i].value,
			    spaced(totals->counters.counters[i].name, text));
	wrapped_end(&wrapped);
	printf("# features of world %s, and seeds that had them on:\n", world->name);
	for (unsigned i = 0; world->features[i]; i++)
		wrapped_add(&wrapped, "%s %" PRIu64, world->features[i], totals->features[i]);
	wrapped_end(&wrapped);
}

static bool status_is_known(unsigned value)
{
	const char *name = nvme_status_name((nvme_status){(uint16_t)value});

	return strstr(name, "unknown") == NULL && strcmp(name, "vendor specific status") != 0;
}

static void statuses_print(const struct sim_totals *all, bool lists_missing)
{
	unsigned reached = 0, known = 0;

	for (unsigned i = 0; i < SIM_STATUS_MAX; i++) {
		known += status_is_known(i);
		reached += all->counters.statuses[i] > 0;
	}
	printf("# statuses that hosts were answered with: %u of %u that have a name\n", reached,
	       known);
	for (unsigned i = 0; i < SIM_STATUS_MAX; i++) {
		const char *name = nvme_status_name((nvme_status){(uint16_t)i});

		if (all->counters.statuses[i] > 0)
			printf("#   %10" PRIu64 " 0x%03x %s\n", all->counters.statuses[i], i, name);
		else if (lists_missing && status_is_known(i))
			printf("#      missing 0x%03x %s\n", i, name);
	}
}

void sim_sum_print(const struct sim_sum *sum, bool lists_missing)
{
	static struct sim_totals all;

	memset(&all, 0, sizeof(all));
	for (unsigned w = 0; sim_worlds[w]; w++) {
		const struct sim_totals *totals = &sum->totals[w];

		if (totals->seeds == 0)
			continue;
		totals_print(sim_worlds[w], totals);
		all.seeds += totals->seeds;
		all.simulated_ns += totals->simulated_ns;
		all.commands += totals->commands;
		for (unsigned i = 0; i < SIM_STATUS_MAX; i++)
			all.counters.statuses[i] += totals->counters.statuses[i];
		for (unsigned i = 0; lists_missing && sim_worlds[w]->features[i]; i++) {
			if (totals->features[i] == 0)
				printf("#   feature never on: %s %s\n", sim_worlds[w]->name,
				       sim_worlds[w]->features[i]);
		}
	}
	statuses_print(&all, lists_missing);
	printf("# %" PRIu64 " seeds, %.0f simulated seconds, %" PRIu64 " commands\n", all.seeds,
	       (double)all.simulated_ns / 1e9, all.commands);
	if (sum->real_s > 0 && sum->cpu_s > 0)
		printf("# in %.1f real seconds (%.0f times as fast) and %.1f of CPU time (%.0f "
		       "times)\n",
		       sum->real_s, (double)all.simulated_ns / 1e9 / sum->real_s, sum->cpu_s,
		       (double)all.simulated_ns / 1e9 / sum->cpu_s);
}

void sim_features_print(const struct sim_world_kind *world, uint64_t features)
{
	struct wrapped wrapped = {0};

	for (unsigned i = 0; world->features[i]; i++) {
		if (features >> i & 1)
			wrapped_add(&wrapped, "%s", world->features[i]);
	}
	wrapped_end(&wrapped);
}

/* ---- scenarios ------------------------------------------------------------------------------- */

void sim_kind_of(const char *what, char ret_kind[256])
{
	size_t length = 0;
	bool is_word = false;

	/* Drops a word that begins with a digit as a whole: hexadecimal numbers contain letters. */
	for (; *what && length < 255; what++) {
		bool is_alnum = isalnum((unsigned char)*what);

		if (!is_word && isdigit((unsigned char)*what)) {
			while (isalnum((unsigned char)what[1]))
				what++;
			ret_kind[length++] = '#';
			continue;
		}
		is_word = is_alnum;
		ret_kind[length++] = *what;
	}
	ret_kind[length] = 0;
}

static void text_add(char text[SIM_TEXT_BYTES], const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void text_add(char text[SIM_TEXT_BYTES], const char *format, ...)
{
	size_t length = strlen(text);
	va_list args;

	va_start(args, format);
	vsnprintf(text + length, SIM_TEXT_BYTES - length, format, args);
	va_end(args);
}

void sim_replay_format(const struct sim_world_kind *world, const struct sim_scenario *scenario,
		       char ret_text[SIM_TEXT_BYTES])
{
	bool is_first = true;

	ret_text[0] = 0;
	text_add(ret_text, "make sim WORLD=%s SEED=%" PRIu64, world->name, scenario->seed);
	for (unsigned i = 0; world->features[i]; i++) {
		if (!(scenario->features_off >> i & 1))
			continue;
		text_add(ret_text, "%s%s", is_first ? " WITHOUT=" : ",", world->features[i]);
		is_first = false;
	}
	if (scenario->commands_max > 0)
		text_add(ret_text, " COMMANDS=%" PRIu64, scenario->commands_max);
	if (scenario->events_max > 0)
		text_add(ret_text, " EVENTS=%" PRIu64, scenario->events_max);
	is_first = true;
	for (unsigned i = 0; i < SIM_EVENTS_MAX; i++) {
		if (!(scenario->events_off[i / 64] >> i % 64 & 1))
			continue;
		text_add(ret_text, "%s%u", is_first ? " SKIP=" : ",", i);
		is_first = false;
	}
	text_add(ret_text, " TRACE=1");
}

int sim_features_parse(const struct sim_world_kind *world, const char *names, uint64_t *ret_bits)
{
	*ret_bits = 0;
	while (*names) {
		size_t length = strcspn(names, ",");
		unsigned i = 0;

		while (world->features[i] && (strlen(world->features[i]) != length ||
					      strncmp(world->features[i], names, length) != 0))
			i++;
		if (!world->features[i])
			return -EINVAL;
		*ret_bits |= 1ull << i;
		names += length + (names[length] == ',');
	}
	return 0;
}
