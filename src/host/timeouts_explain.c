/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The consequences of a set of time-outs: the page of `weft explain-timeouts`, in order of time,
 * and the worst cases as numbers. Pure; any thread.
 *
 * The sums follow the rules of docs/failover.md. A path is given up at found_ms. Commands that
 * change nothing then go on at once. Commands that change data wait for a Cross-Controller Reset,
 * or until the lost controller has ended by itself (host_timeouts_fence_ms).
 */
#include "host/timeouts.h"

#include "base/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct page {
	char *text;
	size_t text_bytes;
	size_t len; /* length of the whole page, even beyond text_bytes */
};

__attribute__((format(printf, 2, 3))) static void page_add(struct page *page, const char *format,
							   ...)
{
	size_t room = page->len < page->text_bytes ? page->text_bytes - page->len : 0;
	va_list args;
	int len;

	va_start(args, format);
	len = vsnprintf(room > 0 ? page->text + page->len : NULL, room, format, args);
	va_end(args);
	CHECK(len >= 0);
	page->len += (size_t)len;
}

struct duration_text {
	char text[32];
};

/* "800 ms", "1.5 s", "2 min"; never drops a digit. */
static struct duration_text page_duration(uint64_t ms)
{
	struct duration_text duration;

	if (ms != 0 && ms % 60000 == 0)
		snprintf(duration.text, sizeof(duration.text), "%llu min",
			 (unsigned long long)ms / 60000);
	else if (ms != 0 && ms % 1000 == 0)
		snprintf(duration.text, sizeof(duration.text), "%llu s",
			 (unsigned long long)ms / 1000);
	else if (ms > 1000 && ms % 100 == 0)
		snprintf(duration.text, sizeof(duration.text), "%llu.%llu s",
			 (unsigned long long)ms / 1000, (unsigned long long)ms % 1000 / 100);
	else
		snprintf(duration.text, sizeof(duration.text), "%llu ms", (unsigned long long)ms);
	return duration;
}

static uint32_t timeouts_value(const struct host_timeouts *timeouts,
			       const struct host_timeout_field *field)
{
	uint32_t value;

	memcpy(&value, (const char *)timeouts + field->offset, sizeof(value));
	return value;
}

static uint64_t command_found_ms(const struct host_timeouts *t)
{
	return (uint64_t)t->command_ms + host_timeouts_look_ms(t->command_ms);
}

/* The peer's kernel acknowledges data, but the controller answers nothing. */
static void fault_of_mute(const struct host_timeouts *t, struct host_fault *fault)
{
	fault->found_by = t->silence_ms != 0 ? "silence" : "command";
	fault->found_ms = t->silence_ms != 0 ? t->silence_ms : command_found_ms(t);
}

/* Nothing comes from the peer at all: the earliest of three time-outs counts. */
static void fault_of_dead_link(const struct host_timeouts *t, struct host_fault *fault)
{
	fault_of_mute(t, fault);
	if (t->unacked_ms < fault->found_ms) {
		fault->found_by = "unacked";
		fault->found_ms = t->unacked_ms;
	}
}

unsigned host_timeouts_faults(const struct host_timeouts *timeouts,
			      struct host_fault faults[HOST_FAULTS_MAX])
{
	uint64_t fence_ms =
		host_timeouts_fence_ms(timeouts->keep_alive_ms, timeouts->quiesce_ms, true);
	unsigned count = 0;

	faults[count++] = (struct host_fault){
		.name = "ana-change", .title = "ANA state changes", .found_by = "status"};
	faults[count++] = (struct host_fault){
		.name = "target-killed", .title = "target process killed", .found_by = "reset"};
	faults[count] = (struct host_fault){.name = "link-cut", .title = "link cut"};
	fault_of_dead_link(timeouts, &faults[count++]);
	faults[count] = (struct host_fault){.name = "silent-death",
					    .title = "packets vanish (silent death)"};
	fault_of_dead_link(timeouts, &faults[count++]);
	faults[count] = (struct host_fault){.name = "target-stopped",
					    .title = "target stopped, its kernel runs"};
	fault_of_mute(timeouts, &faults[count++]);
	faults[count++] = (struct host_fault){.name = "medium-stalled",
					      .title = "medium stalled, target answers",
					      .found_by = "command",
					      .found_ms = command_found_ms(timeouts)};
	for (unsigned i = 0; i < count; i++) {
		struct host_fault *fault = &faults[i];

		fault->read_ms = fault->found_ms;
		fault->write_reset_ms = fault->found_ms;
		fault->write_time_ms = fault->found_ms;
		/* A status is an answer: the command has ended, so no fence is needed. */
		if (strcmp(fault->found_by, "status") != 0) {
			fault->write_reset_ms += timeouts->reset_ms;
			fault->write_time_ms += fence_ms;
		}
	}
	return count;
}

static void page_add_values(struct page *page, const struct host_timeouts *timeouts)
{
	for (unsigned i = 0; i < host_timeout_field_count; i++) {
		const struct host_timeout_field *field = &host_timeout_fields[i];
		uint32_t value = timeouts_value(timeouts, field);
		char text[32];

		if (field->is_percent)
			snprintf(text, sizeof(text), "%u %%", value);
		else
			snprintf(text, sizeof(text), "%s", page_duration(value).text);
		page_add(page, "  %-14s %8s  %s\n", field->name, text, field->help);
	}
}

static void page_add_step(struct page *page, uint64_t ms, const char *what)
{
	page_add(page, "  %8s  %s\n", page_duration(ms).text, what);
}

static void page_add_loss(struct page *page, const struct host_timeouts *t)
{
	struct host_fault fault = {0};

	fault_of_mute(t, &fault);
	page_add(page,
		 "\nA path stops answering with a command in flight; another path is live:\n");
	page_add_step(page, 0, "the last byte arrives");
	if (t->silence_ms != 0)
		page_add_step(page, t->silence_ms / 3,
			      "a Keep Alive is sent; with any answer the path stays in use");
	page_add_step(page, fault.found_ms,
		      "the path is lost: its connections are reset, reads and flushes continue "
		      "elsewhere");
	page_add_step(
		page, fault.found_ms,
		"Cross-Controller Reset (CCR) through another path; writes continue after it");
	page_add_step(page, fault.found_ms + t->reset_ms,
		      "CCR not done: it is tried through the next path");
	page_add_step(page,
		      fault.found_ms +
			      host_timeouts_fence_ms(t->keep_alive_ms, t->quiesce_ms, true),
		      "no CCR at all: the controller has ended by itself (KATO twice, CQT); writes "
		      "continue");
}

static void page_add_outage(struct page *page, const struct host_timeouts *t)
{
	page_add(page, "\nNo path is left:\n");
	page_add(page,
		 "  %8s  the first attempt to connect again, then twice as long each time up to "
		 "%s;\n%10s  chance takes off up to %u %%\n",
		 page_duration(t->reconnect_min_ms).text, page_duration(t->reconnect_max_ms).text,
		 "", t->jitter_percent);
	if (t->fast_io_fail_ms != 0)
		page_add_step(page, t->fast_io_fail_ms,
			      "waiting I/O fails, once it is certain that it can no longer run");
	else
		page_add(page, "  %8s  I/O waits for ever; it does not fail\n", "");
	if (t->ctrl_loss_ms != 0)
		page_add_step(
			page, t->ctrl_loss_ms,
			"the path is reported as lost; attempts continue, nothing is deleted");
	page_add(page,
		 "  A path lost within %s of its connect is used last until it has been stable "
		 "that long.\n",
		 page_duration(t->stable_ms).text);
}

size_t host_timeouts_explain(const struct host_timeouts *timeouts, const char *profile_name,
			     char *text, size_t text_bytes)
{
	struct host_fault faults[HOST_FAULTS_MAX];
	unsigned count = host_timeouts_faults(timeouts, faults);
	struct page page = {.text = text, .text_bytes = text_bytes};

	page_add(&page, "Time-outs of the host, profile %s:\n\n", profile_name);
	page_add_values(&page, timeouts);
	page_add_loss(&page, timeouts);
	page_add_outage(&page, timeouts);
	page_add(&page, "\nWorst cases, from the fault until I/O continues (and what detects the "
			"lost path):\n\n");
	page_add(&page, "  %-34s %-8s %10s %12s %12s\n", "fault", "by", "reads", "writes: CCR",
		 "no CCR");
	for (unsigned i = 0; i < count; i++)
		page_add(&page, "  %-34s %-8s %10s %12s %12s\n", faults[i].title,
			 faults[i].found_by, page_duration(faults[i].read_ms).text,
			 page_duration(faults[i].write_reset_ms).text,
			 page_duration(faults[i].write_time_ms).text);
	page_add(&page, "\nCCR usually takes a round trip; the column has the most it may take "
			"(reset). Without CCR the\ntarget's own CQT counts where it reports one, "
			"and KATO once where it counts no traffic.\n");
	return page.len;
}
