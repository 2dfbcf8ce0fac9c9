/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `weft perf`: parses the options, runs the load on the main thread, shows progress on a terminal
 * and the result at the end. An interrupt ends the load early; what was measured is still printed.
 */
#include "base/log.h"
#include "base/tool_error.h"
#include "cli/cli.h"
#include "cli/perf.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_bool is_interrupted;

static void on_signal(int number)
{
	atomic_store_explicit(&is_interrupted, true, memory_order_relaxed);
}

static void progress_print(void *arg, const struct perf_progress *progress)
{
	if (progress->ctrls_connected < progress->ctrls_total) {
		fprintf(stderr, "\rconnected %u of %u controllers ", progress->ctrls_connected,
			progress->ctrls_total);
		return;
	}
	fprintf(stderr, "\r%s %6.1f s  %10.0f IOPS  %9.1f MiB/s ",
		progress->is_verify_pass ? "verify" : "load  ",
		(double)progress->elapsed_ms / 1000.0, progress->iops, progress->mib_per_s);
}

static void progress_clear(void)
{
	fprintf(stderr, "\r%60s\r", "");
}

int cmd_perf(int argc, char **argv)
{
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESETHAND};
	struct perf_result *result;
	static struct perf_args args;
	bool shows_progress;
	int exit_status;
	int res;

	if (!perf_args_parse(argc, argv, &args, &exit_status))
		return exit_status;
	/* The report shows what happened to the paths. */
	log_set_level(LOG_LEVEL_ERROR);
	result = malloc(sizeof(*result));
	if (result == NULL)
		return CLI_FAILED;
	shows_progress = !args.is_quiet && isatty(STDERR_FILENO);
	if (shows_progress)
		args.options.progress = progress_print;
	args.options.stop = &is_interrupted;
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	res = perf_run(&args.options, result);
	if (shows_progress)
		progress_clear();
	if (result->error[0] != '\0')
		tool_error("perf", "%s", result->error);
	else if (res != 0 && res != -EIO)
		tool_error("perf", "%s", strerror(-res));
	/* No report when the load did not start. */
	if (args.is_json)
		perf_report_json(&args.options, result);
	else if (result->region_bytes > 0)
		perf_report_text(&args.options, result);
	free(result);
	if (res == -EINVAL)
		return CLI_USAGE;
	return res == 0 ? CLI_OK : CLI_FAILED;
}
