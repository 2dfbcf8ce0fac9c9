/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time-outs: the profiles keep their promises; values are set by name, and contradictions are
 * refused with a helpful text; the page lists the values.
 */
#include "host/timeouts.h"
#include "tap.h"

#include <errno.h>
#include <stdlib.h>

static struct host_timeouts profile_of(enum host_profile profile)
{
	struct host_timeouts timeouts;

	host_timeouts_fill(&timeouts, profile);
	return timeouts;
}

static void profiles_keep_their_promises(void)
{
	char error[256] = "";

	for (unsigned i = HOST_PROFILE_DEFAULT; i <= HOST_PROFILE_DATABASE; i++) {
		struct host_timeouts timeouts = profile_of((enum host_profile)i);
		enum host_profile profile;

		EXPECT_EQ(0, host_timeouts_check(&timeouts, error, sizeof(error)));
		EXPECT_STR("", error);
		EXPECT_EQ(0, host_profile_parse(host_profile_name((enum host_profile)i), &profile));
		EXPECT_EQ(i, profile);
	}
	/* Silent death is found in under a second by default and in training. */
	EXPECT(profile_of(HOST_PROFILE_DEFAULT).silence_ms < 1000);
	EXPECT(profile_of(HOST_PROFILE_TRAINING).silence_ms <
	       profile_of(HOST_PROFILE_DEFAULT).silence_ms);
	EXPECT(profile_of(HOST_PROFILE_DATABASE).silence_ms >
	       profile_of(HOST_PROFILE_DEFAULT).silence_ms);
	/* I/O of the database profile waits for ever. */
	EXPECT_EQ(0, profile_of(HOST_PROFILE_DATABASE).fast_io_fail_ms);
	EXPECT_EQ(-EINVAL, host_profile_parse("fast", &(enum host_profile){0}));
	EXPECT_STR("unknown", host_profile_name((enum host_profile)(HOST_PROFILE_DATABASE + 1)));
}

/* Every value of every profile is in the range of its field. */
static void profiles_lie_in_range(void)
{
	for (unsigned i = HOST_PROFILE_DEFAULT; i <= HOST_PROFILE_DATABASE; i++) {
		struct host_timeouts timeouts = profile_of((enum host_profile)i);

		for (unsigned f = 0; f < host_timeout_field_count; f++) {
			const struct host_timeout_field *field = &host_timeout_fields[f];
			struct host_timeouts copy = timeouts;
			char assignment[64], error[256] = "";
			uint32_t value;

			memcpy(&value, (const char *)&timeouts + field->offset, sizeof(value));
			snprintf(assignment, sizeof(assignment), "%s=%u", field->name, value);
			EXPECT_EQ(0, host_timeouts_set(&copy, assignment, error, sizeof(error)));
			EXPECT_STR("", error);
			EXPECT_EQ(0, memcmp(&copy, &timeouts, sizeof(copy)));
		}
	}
	/* Every member of the struct has a name. */
	EXPECT_EQ(sizeof(struct host_timeouts) / sizeof(uint32_t), host_timeout_field_count);
}

static void values_are_set_by_name(void)
{
	struct host_timeouts timeouts = profile_of(HOST_PROFILE_DEFAULT);
	char error[256] = "";

	EXPECT_EQ(0, host_timeouts_set(&timeouts, "silence=250", error, sizeof(error)));
	EXPECT_EQ(250, timeouts.silence_ms);
	EXPECT_EQ(0, host_timeouts_set(&timeouts, "silence=1.5s", error, sizeof(error)));
	EXPECT_EQ(1500, timeouts.silence_ms);
	EXPECT_EQ(0, host_timeouts_set(&timeouts, "fast-io-fail=2m", error, sizeof(error)));
	EXPECT_EQ(120000, timeouts.fast_io_fail_ms);
	EXPECT_EQ(0, host_timeouts_set(&timeouts, "fast-io-fail=0", error, sizeof(error)));
	EXPECT_EQ(0, timeouts.fast_io_fail_ms);
	EXPECT_EQ(0, host_timeouts_set(&timeouts, "jitter=10%", error, sizeof(error)));
	EXPECT_EQ(10, timeouts.jitter_percent);
	EXPECT_EQ(0, host_timeouts_set(&timeouts, "jitter=0", error, sizeof(error)));
	EXPECT_EQ(0, timeouts.jitter_percent);
	EXPECT_STR("", error);
}

static void nonsense_is_refused(void)
{
	static const struct {
		const char *assignment;
		const char *says;
	} cases[] = {
		{"silence", "name=value"},
		{"", "name=value"},
		{"=5", "unknown time-out"},
		{"quiet=5", "known: connect, keep-alive"},
		{"silence=", "is no time"},
		{"silence=fast", "is no time"},
		{"silence=-1", "is no time"},
		{"silence=5 s", "is no time"},
		{"silence=1", "30 ms to 3600000 ms, or 0"},
		{"keep-alive=0", "100 ms to"},
		{"keep-alive=2000000000", "out of range"},
		{"keep-alive=99999999999999999999s", "is no time"},
		{"jitter=91", "0% to 90%"},
		{"jitter=5s", "is no percentage"},
		{"jitter=%", "is no percentage"},
		{"jitter=5%%", "is no percentage"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct host_timeouts timeouts = profile_of(HOST_PROFILE_DEFAULT);
		struct host_timeouts before = timeouts;
		char error[256] = "", small[8];

		EXPECT_EQ(-EINVAL,
			  host_timeouts_set(&timeouts, cases[i].assignment, error, sizeof(error)));
		if (!strstr(error, cases[i].says)) {
			printf("# \"%s\" says: %s\n", cases[i].assignment, error);
			EXPECT(false);
		}
		EXPECT_EQ(0, memcmp(&timeouts, &before, sizeof(timeouts)));
		EXPECT_EQ(-EINVAL,
			  host_timeouts_set(&timeouts, cases[i].assignment, small, sizeof(small)));
		EXPECT(memchr(small, 0, sizeof(small)) != NULL);
	}
}

static void contradictions_are_refused(void)
{
	static const struct {
		const char *first, *second;
		const char *says;
	} cases[] = {
		{"reconnect-min=6s", "jitter=0", "reconnect-min"},
		{"silence=5s", "jitter=0", "silence (5000 ms) must be below keep-alive"},
		{"keep-alive=800ms", "jitter=0", "silence (800 ms)"},
		{"command=700ms", "jitter=0", "above command"},
		{"ctrl-loss=4s", "jitter=0", "ctrl-loss"},
		{"ctrl-loss=0", "silence=0", NULL},
		{"ctrl-loss=5s", "silence=700ms", NULL},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct host_timeouts timeouts = profile_of(HOST_PROFILE_DEFAULT);
		char error[256] = "";
		int want = cases[i].says ? -EINVAL : 0;

		EXPECT_EQ(0, host_timeouts_set(&timeouts, cases[i].first, error, sizeof(error)));
		EXPECT_EQ(0, host_timeouts_set(&timeouts, cases[i].second, error, sizeof(error)));
		EXPECT_EQ(want, host_timeouts_check(&timeouts, error, sizeof(error)));
		EXPECT(!cases[i].says || strstr(error, cases[i].says) != NULL);
	}
}

static const struct host_fault *fault_named(const struct host_fault *faults, unsigned count,
					    const char *name)
{
	static const struct host_fault none;

	for (unsigned i = 0; i < count; i++)
		if (strcmp(faults[i].name, name) == 0)
			return &faults[i];
	EXPECT_STR(name, "there is such a fault");
	return &none;
}

static void sums_are_right(void)
{
	struct host_timeouts timeouts = profile_of(HOST_PROFILE_DEFAULT);
	struct host_fault faults[HOST_FAULTS_MAX];
	unsigned count = host_timeouts_faults(&timeouts, faults);
	const struct host_fault *fault;

	EXPECT(count <= HOST_FAULTS_MAX);
	EXPECT_EQ(15000, host_timeouts_fence_ms(5000, 5000, true));
	EXPECT_EQ(10000, host_timeouts_fence_ms(5000, 5000, false));
	EXPECT_EQ(3ull * UINT32_MAX, host_timeouts_fence_ms(UINT32_MAX, UINT32_MAX, true));

	fault = fault_named(faults, count, "silent-death");
	EXPECT_STR("silence", fault->found_by);
	EXPECT_EQ(800, fault->read_ms);
	EXPECT_EQ(800 + 2000, fault->write_reset_ms);
	EXPECT_EQ(800 + 2 * 5000 + 5000, fault->write_time_ms);
	fault = fault_named(faults, count, "target-killed");
	EXPECT_EQ(0, fault->read_ms);
	EXPECT_EQ(2000, fault->write_reset_ms);
	EXPECT_EQ(15000, fault->write_time_ms);
	/* An answer, even a failure, needs no fence. */
	fault = fault_named(faults, count, "ana-change");
	EXPECT_EQ(0, fault->write_time_ms);
	fault = fault_named(faults, count, "medium-stalled");
	/* Pending commands are checked once a second. */
	EXPECT_EQ(30000 + 1000, fault->found_ms);
	EXPECT_EQ(1000, host_timeouts_look_ms(30000));
	EXPECT_EQ(10, host_timeouts_look_ms(80));
	EXPECT_EQ(1, host_timeouts_look_ms(1));

	/* Without the silence time-out the other time-outs find the loss. */
	timeouts.silence_ms = 0;
	count = host_timeouts_faults(&timeouts, faults);
	EXPECT_STR("unacked", fault_named(faults, count, "link-cut")->found_by);
	EXPECT_EQ(1000, fault_named(faults, count, "link-cut")->found_ms);
	EXPECT_STR("command", fault_named(faults, count, "target-stopped")->found_by);
}

static void page_says_what_the_values_are(void)
{
	struct host_timeouts timeouts = profile_of(HOST_PROFILE_TRAINING);
	char text[8192], small[100];
	size_t len = host_timeouts_explain(&timeouts, "training", text, sizeof(text));
	unsigned lines = 0;

	EXPECT_EQ(strlen(text), len);
	EXPECT(strstr(text, "profile training") != NULL);
	EXPECT(strstr(text, "300 ms") != NULL);
	for (unsigned i = 0; i < host_timeout_field_count; i++)
		EXPECT(strstr(text, host_timeout_fields[i].name) != NULL);
	/* At most 60 lines of 100 characters. */
	for (char *line = text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1, lines++)
		EXPECT(end - line <= 100);
	EXPECT(lines <= 60);

	memset(small, 'x', sizeof(small));
	EXPECT_EQ(len, host_timeouts_explain(&timeouts, "training", small, sizeof(small)));
	EXPECT_EQ(sizeof(small) - 1, strlen(small));
	EXPECT_EQ(0, memcmp(small, text, sizeof(small) - 1));
	EXPECT_EQ(len, host_timeouts_explain(&timeouts, "training", NULL, 0));

	timeouts.fast_io_fail_ms = 0;
	host_timeouts_explain(&timeouts, "training", text, sizeof(text));
	EXPECT(strstr(text, "waits for ever") != NULL);
}

int main(void)
{
	TAP_RUN(profiles_keep_their_promises);
	TAP_RUN(profiles_lie_in_range);
	TAP_RUN(values_are_set_by_name);
	TAP_RUN(nonsense_is_refused);
	TAP_RUN(contradictions_are_refused);
	TAP_RUN(sums_are_right);
	TAP_RUN(page_says_what_the_values_are);
	return tap_end();
}
