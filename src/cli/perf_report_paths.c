/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The report of `weft perf` about paths and hedged reads, for people and as JSON. Main thread. A
 * path's commands are those that it answered in the measured time, including extra reads of hedging
 * that won. Its latency is the mean of these commands.
 */
#include "base/clock.h"
#include "base/net_addr.h"
#include "cli/perf.h"
#include "cli/print.h"

#include <jansson.h>
#include <stdio.h>

static uint64_t commands_sum(const struct perf_options *options, const struct perf_result *result)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < options->mpath.path_count; i++)
		sum += result->paths[i].commands;
	return sum;
}

static double latency_us(const struct perf_path_result *path)
{
	return path->commands > 0
		       ? (double)path->answered_ns / (double)path->commands / (double)NS_PER_US
		       : 0;
}

/* Returns percent. */
static double share(uint64_t part, uint64_t whole)
{
	return whole > 0 ? 100.0 * (double)part / (double)whole : 0;
}

void perf_report_paths_text(const struct perf_options *options, const struct perf_result *result)
{
	const struct perf_mpath_options *mpath = &options->mpath;
	uint64_t sum = commands_sum(options, result);
	char text[HOST_ADDR_TEXT_BYTES];

	if (!mpath->is_used)
		return;
	printf("paths   %u, policy %s, profile %s\n", mpath->path_count,
	       path_policy_name(mpath->policy), host_profile_name(mpath->profile));
	for (unsigned i = 0; i < mpath->path_count; i++) {
		const struct perf_path_result *path = &result->paths[i];

		printf("        %s", host_addr_format(&mpath->paths[i].addr, text));
		if (mpath->target_count > 1)
			printf(" of %s", mpath->nqns[mpath->paths[i].target]);
		printf(": %.1f %% of the commands (%lu), latency us %.1f, lost %lu times%s\n",
		       share(path->commands, sum), (unsigned long)path->commands, latency_us(path),
		       (unsigned long)path->losses,
		       path->is_live ? "" : ", not connected at the end");
		if (!path->is_live && path->last_error[0] != '\0')
			printf("          %s\n", cli_shown(path->last_error));
	}
	if (mpath->hedge.percentile > 0)
		printf("hedge   %lu of %lu reads sent twice (%.2f %%), %lu answered by the second "
		       "first\n",
		       (unsigned long)result->hedge.twins, (unsigned long)result->hedge.reads,
		       share(result->hedge.twins, result->hedge.reads),
		       (unsigned long)result->hedge.wins);
}

static json_t *hedge_to_json(const struct perf_options *options, const struct perf_result *result)
{
	const struct mpath_hedge_stats *hedge = &result->hedge;
	bool is_known = hedge->threshold_ns != UINT64_MAX;

	return json_pack("{s:f, s:I, s:I, s:I, s:f, s:f}", "percentile",
			 (double)options->mpath.hedge.percentile / 100.0, "reads",
			 (json_int_t)hedge->reads, "extra", (json_int_t)hedge->twins, "wins",
			 (json_int_t)hedge->wins, "extra_percent",
			 share(hedge->twins, hedge->reads), "threshold_us",
			 is_known ? (double)hedge->threshold_ns / 1000.0 : 0.0);
}

void perf_report_paths_json(const struct perf_options *options, const struct perf_result *result,
			    struct json_t *root)
{
	const struct perf_mpath_options *mpath = &options->mpath;
	uint64_t sum = commands_sum(options, result);
	char text[HOST_ADDR_TEXT_BYTES];
	json_t *list;

	if (!mpath->is_used)
		return;
	list = json_array();
	for (unsigned i = 0; i < mpath->path_count; i++) {
		const struct perf_path_result *path = &result->paths[i];

		json_array_append_new(
			list, json_pack("{s:s, s:s, s:I, s:f, s:f, s:I, s:b, s:s}", "subsystem",
					mpath->nqns[mpath->paths[i].target], "address",
					host_addr_format(&mpath->paths[i].addr, text), "commands",
					(json_int_t)path->commands, "share_percent",
					share(path->commands, sum), "latency_us", latency_us(path),
					"losses", (json_int_t)path->losses, "live", path->is_live,
					"last_error", path->last_error));
	}
	json_object_set_new(root, "paths", list);
	json_object_set_new(root, "policy", json_string(path_policy_name(mpath->policy)));
	json_object_set_new(root, "profile", json_string(host_profile_name(mpath->profile)));
	if (mpath->hedge.percentile > 0)
		json_object_set_new(root, "hedge", hedge_to_json(options, result));
}
