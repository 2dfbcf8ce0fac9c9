/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The report of `weft perf`, for people and as JSON. Main thread. Latencies are in microseconds,
 * from submission (with --rate, from the scheduled time) to the completion's callback. CPU time is
 * that of this process.
 */
#include "base/clock.h"
#include "base/text.h"
#include "cli/perf.h"
#include "cli/print.h"

#include <jansson.h>
#include <stdio.h>

static const struct {
	const char *name;
	const char *key;
	double percent;
} percentiles[] = {
	{"p50", "p50", 50},       {"p90", "p90", 90},          {"p99", "p99", 99},
	{"p99.9", "p99_9", 99.9}, {"p99.99", "p99_99", 99.99},
};

static double us_of(uint64_t ns)
{
	return (double)ns / 1000.0;
}

static double per_second(uint64_t count, uint64_t elapsed_ns)
{
	return elapsed_ns > 0 ? (double)count * 1e9 / (double)elapsed_ns : 0;
}

const char *perf_mode_name(const struct perf_options *options)
{
	if (options->read_percent == 100)
		return options->is_random ? "randread" : "read";
	if (options->read_percent == 0)
		return options->is_random ? "randwrite" : "write";
	return options->is_random ? "randrw" : "rw";
}

static void direction_print(const char *name, const struct perf_direction *direction,
			    uint64_t elapsed_ns)
{
	const struct histogram *latency = &direction->latency;

	if (direction->ios == 0)
		return;
	printf("%-7s %.0f IOPS, %.1f MiB/s (%lu I/Os in %.2f s)\n", name,
	       per_second(direction->ios, elapsed_ns),
	       per_second(direction->bytes, elapsed_ns) / 1048576.0, (unsigned long)direction->ios,
	       (double)elapsed_ns / 1e9);
	printf("        latency us: avg %.1f  min %.1f", us_of(histogram_mean(latency)),
	       us_of(latency->min_ns));
	for (size_t i = 0; i < ARRAY_LEN(percentiles); i++)
		printf("  %s %.1f", percentiles[i].name,
		       us_of(histogram_percentile(latency, percentiles[i].percent)));
	printf("  max %.1f\n", us_of(latency->max_ns));
}

static uint64_t result_ios(const struct perf_result *result)
{
	return result->reads.ios + result->writes.ios;
}

static void head_print(const struct perf_options *options, const struct perf_result *result)
{
	char bs[32];
	char size[32];

	printf("%s, %s blocks, ", perf_mode_name(options),
	       text_format_size(options->io_bytes, bs, sizeof(bs)));
	if (result->ctrls > 1)
		printf("%u controllers with ", result->ctrls);
	printf("%u queue%s of depth %u, %s of namespace %u", result->queues,
	       result->queues == 1 ? "" : "s", result->depth,
	       text_format_size(result->region_bytes, size, sizeof(size)), options->nsid);
	if (options->namespaces > 1)
		printf(" and %u others", options->namespaces - 1);
	if (options->idle_ctrls > 0)
		printf(", %u idle controllers", options->idle_ctrls);
	putchar('\n');
}

/* True when commands were answered at the requested rate; 1 % less is tolerated. */
static bool rate_is_kept(const struct perf_options *options, const struct perf_result *result)
{
	return per_second(result_ios(result), result->elapsed_ns) >= 0.99 * (double)options->rate;
}

static void rate_print(const struct perf_options *options, const struct perf_result *result)
{
	const struct histogram *lateness = &result->lateness;

	if (options->rate == 0)
		return;
	printf("rate    asked %lu/s, achieved %.0f/s; sent late us: avg %.1f  p99.9 %.1f\n",
	       (unsigned long)options->rate, per_second(result_ios(result), result->elapsed_ns),
	       us_of(histogram_mean(lateness)), us_of(histogram_percentile(lateness, 99.9)));
	if (!rate_is_kept(options, result))
		printf("        NOT REACHED (%lu due and never sent, %lu answered too late): "
		       "the latencies are those of an overload\n",
		       (unsigned long)result->rate_unsent,
		       (unsigned long)result->rate_answered_late);
	/* Up to one millisecond of commands is normal: they are lost where the warm-up's schedule
	 * is cut to begin the measurement's. */
	if (result->rate_warmup_unsent > options->rate / 1000 + 1)
		printf("        dropped %lu that were due in the warm-up and never sent\n",
		       (unsigned long)result->rate_warmup_unsent);
}

static void ctrls_print(const struct perf_options *options, const struct perf_result *result)
{
	if (result->ctrls + options->idle_ctrls > 1)
		printf("ctrls   slowest %.0f IOPS, fastest %.0f IOPS; all %u connected in %.2f s\n",
		       per_second(result->ctrl_ios_min, result->elapsed_ns),
		       per_second(result->ctrl_ios_max, result->elapsed_ns),
		       result->ctrls + options->idle_ctrls, (double)result->connect_ns / 1e9);
}

void perf_report_text(const struct perf_options *options, const struct perf_result *result)
{
	uint64_t ios = result_ios(result);

	head_print(options, result);
	direction_print("read", &result->reads, result->elapsed_ns);
	direction_print("write", &result->writes, result->elapsed_ns);
	if (ios > 0 && result->elapsed_ns > 0)
		printf("cpu     %.2f us per I/O (%.0f %% of one CPU)\n",
		       us_of(result->cpu_ns) / (double)ios,
		       100.0 * (double)result->cpu_ns / (double)result->elapsed_ns);
	if (options->watch_pid != 0 && ios > 0 && result->elapsed_ns > 0)
		printf("watched %.2f us of CPU per I/O (%.0f %% of one CPU), process %d\n",
		       us_of(result->watched_cpu_ns) / (double)ios,
		       100.0 * (double)result->watched_cpu_ns / (double)result->elapsed_ns,
		       (int)options->watch_pid);
	rate_print(options, result);
	ctrls_print(options, result);
	perf_report_paths_text(options, result);
	direction_print("verify", &result->verify_reads, result->verify_elapsed_ns);
	if (options->wants_verify)
		printf("verify  %lu blocks checked, %lu wrong%s%s\n",
		       (unsigned long)result->verified_blocks, (unsigned long)result->verify_errors,
		       result->verify_errors > 0 ? "; first: " : "", result->verify_first);
	printf("errors  %lu\n", (unsigned long)result->io_errors);
	for (unsigned i = 0; i < result->error_kinds; i++)
		printf("        %lu x %s (0x%03x)\n", (unsigned long)result->errors[i].count,
		       nvme_io_status_name(result->errors[i].status),
		       result->errors[i].status.value & 0x7ff);
}

static json_t *latency_to_json(const struct histogram *latency)
{
	bool has_any = latency->count > 0;
	json_t *us = json_pack(
		"{s:f, s:f, s:f}", "avg", has_any ? us_of(histogram_mean(latency)) : 0.0, "min",
		has_any ? us_of(latency->min_ns) : 0.0, "max", us_of(latency->max_ns));

	for (size_t i = 0; i < ARRAY_LEN(percentiles); i++)
		json_object_set_new(
			us, percentiles[i].key,
			json_real(us_of(histogram_percentile(latency, percentiles[i].percent))));
	return us;
}

static json_t *direction_to_json(const struct perf_direction *direction, uint64_t elapsed_ns)
{
	return json_pack("{s:I, s:I, s:f, s:f, s:o}", "ios", (json_int_t)direction->ios, "bytes",
			 (json_int_t)direction->bytes, "iops",
			 per_second(direction->ios, elapsed_ns), "mib_per_s",
			 per_second(direction->bytes, elapsed_ns) / 1048576.0, "latency_us",
			 latency_to_json(&direction->latency));
}

static void ctrls_to_json(json_t *root, const struct perf_options *options,
			  const struct perf_result *result)
{
	json_object_set_new(root, "controllers", json_integer(options->ctrls));
	json_object_set_new(root, "idle_controllers", json_integer(options->idle_ctrls));
	json_object_set_new(root, "namespaces", json_integer(options->namespaces));
	json_object_set_new(root, "connect_s", json_real((double)result->connect_ns / 1e9));
	json_object_set_new(root, "controller_iops",
			    json_pack("{s:f, s:f}", "min",
				      per_second(result->ctrl_ios_min, result->elapsed_ns), "max",
				      per_second(result->ctrl_ios_max, result->elapsed_ns)));
}

static void rate_to_json(json_t *root, const struct perf_options *options,
			 const struct perf_result *result)
{
	if (options->rate == 0)
		return;
	json_object_set_new(root, "rate_asked", json_integer((json_int_t)options->rate));
	json_object_set_new(root, "rate_achieved",
			    json_real(per_second(result_ios(result), result->elapsed_ns)));
	json_object_set_new(root, "rate_kept", json_boolean(rate_is_kept(options, result)));
	json_object_set_new(root, "rate_unsent", json_integer((json_int_t)result->rate_unsent));
	json_object_set_new(root, "rate_answered_late",
			    json_integer((json_int_t)result->rate_answered_late));
	json_object_set_new(root, "rate_warmup_unsent",
			    json_integer((json_int_t)result->rate_warmup_unsent));
	json_object_set_new(root, "late_us", latency_to_json(&result->lateness));
}

static json_t *errors_to_json(const struct perf_result *result)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < result->error_kinds; i++)
		json_array_append_new(
			list, json_pack("{s:i, s:s, s:I}", "status",
					(int)(result->errors[i].status.value & 0x7ff), "name",
					nvme_io_status_name(result->errors[i].status), "count",
					(json_int_t)result->errors[i].count));
	return list;
}

void perf_report_json(const struct perf_options *options, const struct perf_result *result)
{
	uint64_t ios = result_ios(result);
	json_t *root = json_pack("{s:s, s:s, s:I, s:i, s:i, s:i, s:b, s:b, s:I, s:f}", "version",
				 WEFT_VERSION, "rw", perf_mode_name(options), "bs",
				 (json_int_t)options->io_bytes, "queues", (int)result->queues,
				 "depth", (int)result->depth, "nsid", (int)options->nsid,
				 "header_digest", options->host.wants_header_digest, "data_digest",
				 options->host.wants_data_digest, "seed", (json_int_t)options->seed,
				 "elapsed_s", (double)result->elapsed_ns / 1e9);

	json_object_set_new(root, "subsystem", json_string(options->host.subsystem_nqn));
	ctrls_to_json(root, options, result);
	rate_to_json(root, options, result);
	perf_report_paths_json(options, result, root);
	json_object_set_new(root, "read", direction_to_json(&result->reads, result->elapsed_ns));
	json_object_set_new(root, "write", direction_to_json(&result->writes, result->elapsed_ns));
	json_object_set_new(root, "cpu_us_per_io",
			    json_real(ios > 0 ? us_of(result->cpu_ns) / (double)ios : 0));
	json_object_set_new(root, "cpu_s", json_real((double)result->cpu_ns / 1e9));
	if (options->watch_pid != 0)
		json_object_set_new(root, "watched_cpu_s",
				    json_real((double)result->watched_cpu_ns / 1e9));
	if (options->wants_verify)
		json_object_set_new(root, "verify",
				    json_pack("{s:I, s:I, s:s, s:o}", "blocks",
					      (json_int_t)result->verified_blocks, "errors",
					      (json_int_t)result->verify_errors, "first",
					      result->verify_first, "read_back",
					      direction_to_json(&result->verify_reads,
								result->verify_elapsed_ns)));
	json_object_set_new(root, "io_errors", json_integer((json_int_t)result->io_errors));
	json_object_set_new(root, "errors", errors_to_json(result));
	if (result->error[0] != '\0')
		json_object_set_new(root, "error", json_string(result->error));
	cli_json_print_measured(root);
	json_decref(root);
}
