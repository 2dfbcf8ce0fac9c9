/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shows the progress of a copy on standard error: one line that is overwritten on a terminal, or
 * one line per second if asked for. The summary goes to standard output, or to standard error when
 * the data go to standard output. Main thread.
 */
#include "copy/progress.h"

#include "base/clock.h"
#include "base/text.h"

#include <stdio.h>
#include <unistd.h>

#define SHOW_NS (NS_PER_S / 4)
#define LINE_NS NS_PER_S

static const char *phase_name(const struct copy *copy)
{
	static const char *const names[] = {
		[COPY_COMPARING] = "compared",
		[COPY_COPYING] = "copied",
		[COPY_VERIFYING] = "verified",
	};

	return names[copy->phase];
}

void copy_progress_begin(struct copy_progress *progress, const struct copy *copy,
			 uint64_t first_bytes)
{
	progress->begin_ns = clock_monotonic_ns();
	progress->shown_ns = progress->begin_ns;
	progress->first_bytes = first_bytes;
	progress->is_terminal = !copy->options->is_quiet && isatty(STDERR_FILENO);
}

static uint64_t bytes_done(struct copy *copy)
{
	uint64_t bytes;

	pthread_mutex_lock(&copy->lock);
	bytes = copy->done_bytes;
	pthread_mutex_unlock(&copy->lock);
	return bytes;
}

static void line_print(const struct copy_progress *progress, const struct copy *copy,
		       uint64_t done_bytes, uint64_t now_ns)
{
	double seconds = (double)(now_ns - progress->begin_ns) / NS_PER_S;
	double rate = seconds > 0 ? (double)done_bytes / seconds : 0;
	uint64_t at = progress->first_bytes + done_bytes;
	uint64_t left = copy->end_bytes - at;
	char done_text[32], total_text[32], rate_text[32];

	if (copy->end_bytes == UINT64_MAX) {
		fprintf(stderr, "%s%s: %s, %s/s%s", progress->is_terminal ? "\r" : "",
			phase_name(copy), text_format_size(at, done_text, sizeof(done_text)),
			text_format_size((uint64_t)rate, rate_text, sizeof(rate_text)),
			progress->is_terminal ? "\033[K" : "\n");
		fflush(stderr);
		return;
	}
	fprintf(stderr, "%s%3.0f %% %s: %s of %s, %s/s, %.0f s left%s",
		progress->is_terminal ? "\r" : "",
		copy->end_bytes > 0 ? 100.0 * (double)at / (double)copy->end_bytes : 100.0,
		phase_name(copy), text_format_size(at, done_text, sizeof(done_text)),
		text_format_size(copy->end_bytes, total_text, sizeof(total_text)),
		text_format_size((uint64_t)rate, rate_text, sizeof(rate_text)),
		rate > 0 ? (double)left / rate : 0.0, progress->is_terminal ? "\033[K" : "\n");
	fflush(stderr);
}

void copy_progress_show(struct copy_progress *progress, struct copy *copy)
{
	uint64_t now_ns = clock_monotonic_ns();
	uint64_t every_ns = progress->is_terminal ? SHOW_NS : LINE_NS;

	if (copy->options->is_quiet || now_ns - progress->shown_ns < every_ns)
		return;
	if (!progress->is_terminal && !copy->options->has_progress)
		return;
	progress->shown_ns = now_ns;
	line_print(progress, copy, bytes_done(copy), now_ns);
}

void copy_progress_end(struct copy_progress *progress, struct copy *copy)
{
	double seconds = (double)(clock_monotonic_ns() - progress->begin_ns) / NS_PER_S;
	uint64_t done = bytes_done(copy);
	char done_text[32], zero_text[32], rate_text[32], zeroes[64] = "";
	FILE *to;

	if (progress->is_terminal)
		fprintf(stderr, "\r\033[K");
	if (copy->is_stopped || copy->options->is_quiet)
		return;
	if (copy->phase == COPY_COPYING && copy->zero_bytes > 0)
		snprintf(zeroes, sizeof(zeroes), " (%s of it zeroes)",
			 text_format_size(copy->zero_bytes, zero_text, sizeof(zero_text)));
	to = copy->to.is_stream ? stderr : stdout;
	fprintf(to, "%s %s%s in %.1f s, %s/s\n", phase_name(copy),
		text_format_size(done, done_text, sizeof(done_text)), zeroes, seconds,
		text_format_size(seconds > 0 ? (uint64_t)((double)done / seconds) : 0, rate_text,
				 sizeof(rate_text)));
	fflush(to);
}
