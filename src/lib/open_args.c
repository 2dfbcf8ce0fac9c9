/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the options of weft_open and turns them into a struct mpath_config and addresses: profile,
 * time-outs, policy, resolved names, paths from discovery. Runs on the caller's thread; may block.
 * Every refusal names the wrong option and the remedy.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/prng.h"
#include "base/text.h"
#include "lib/discovery_log.h"
#include "lib/lib.h"
#include "wire/nqn.h"
#include "wire/nvme_tcp.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUEUE_SIZE_MAX  65535
#define QUEUES_PER_PART 64
#define TIMEOUTS_BYTES  512

int open_args_resolve(const struct weft_path *path, uint16_t default_port,
		      struct host_addr *ret_addr, struct weft_error *error)
{
	uint64_t port = default_port;

	if (path->address == NULL || path->address[0] == '\0')
		return lib_fail(error, -EINVAL, "a path has no address");
	if (path->service != NULL &&
	    (text_parse_u64(path->service, 65535, &port) != 0 || port == 0))
		return lib_fail(
			error, -EINVAL,
			"the service \"%s\" of %s is not a port; give a number from 1 to 65535",
			path->service, path->address);
	ret_addr->transport = NULL;
	if (net_addr_resolve(path->address, (uint16_t)port, &ret_addr->net) != 0)
		return lib_fail(error, -EHOSTUNREACH,
				"cannot find the address of \"%s\"; check the name", path->address);
	return 0;
}

/* Applies "name=value,..." over the profile. */
static int timeouts_take(struct host_timeouts *timeouts, const struct weft_open_options *options,
			 struct weft_error *error)
{
	enum host_profile profile = HOST_PROFILE_DEFAULT;
	char list[TIMEOUTS_BYTES], why[256];
	char *rest = list;

	if (options->profile != NULL && host_profile_parse(options->profile, &profile) != 0)
		return lib_fail(error, -EINVAL,
				"there is no profile \"%s\"; use default, training or database",
				options->profile);
	host_timeouts_fill(timeouts, profile);
	if (options->timeouts != NULL) {
		if (text_copy(list, sizeof(list), options->timeouts) >= sizeof(list))
			return lib_fail(error, -EINVAL,
					"the list of time-outs is longer than %zu characters",
					sizeof(list) - 1);
		for (char *one; (one = strsep(&rest, ",")) != NULL;) {
			if (*one != '\0' && host_timeouts_set(timeouts, one, why, sizeof(why)) != 0)
				return lib_fail(error, -EINVAL, "%s", why);
		}
	}
	if (host_timeouts_check(timeouts, why, sizeof(why)) != 0)
		return lib_fail(error, -EINVAL, "%s", why);
	return 0;
}

static int nqn_take(const char *nqn, char to[NVME_NQN_BYTES], struct weft_error *error)
{
	const char *problem = nqn_problem(nqn);

	if (problem != NULL)
		return lib_fail(error, -EINVAL, "the subsystem NQN \"%s\" %s", nqn, problem);
	text_copy(to, NVME_NQN_BYTES, nqn);
	return 0;
}

static int queues_take(struct weft_subsystem *subsystem, const struct weft_open_options *options,
		       struct weft_error *error)
{
	struct mpath_config *config = &subsystem->config;
	unsigned parts = subsystem->part_count;

	config->io_queues = options->queues / parts + (options->queues % parts != 0);
	if (config->io_queues == 0)
		config->io_queues = 1;
	if (config->io_queues > QUEUES_PER_PART)
		return lib_fail(error, -EINVAL, "%u queues are too many; %u for each reactor",
				options->queues, QUEUES_PER_PART);
	if (options->queue_size == 1 || options->queue_size > QUEUE_SIZE_MAX)
		return lib_fail(error, -EINVAL, "a queue has 2 to %u entries, not %u",
				QUEUE_SIZE_MAX, options->queue_size);
	config->io_queue_size = options->queue_size;
	if (options->hedge_percentile >= 10000)
		return lib_fail(error, -EINVAL,
				"the percentile of hedged reads is in hundredths of a percent, "
				"below 10000, not %u",
				options->hedge_percentile);
	if (options->hedge_extra_percent > 100)
		return lib_fail(error, -EINVAL,
				"%u percent of extra reads are too many; 100 at most",
				options->hedge_extra_percent);
	return 0;
}

/* ---- addresses ------------------------------------------------------------------------------ */

static int addr_add(struct weft_subsystem *subsystem, const struct host_addr *addr,
		    struct weft_error *error)
{
	for (unsigned i = 0; i < subsystem->addr_count; i++) {
		if (host_addr_same(&subsystem->addrs[i], addr))
			return 0;
	}
	if (subsystem->addr_count == MPATH_PATHS_MAX)
		return lib_fail(error, -ENOSPC, "more than %u paths", MPATH_PATHS_MAX);
	subsystem->addrs[subsystem->addr_count++] = *addr;
	return 0;
}

/* Logs the paths to the subsystem, or to any while none is chosen, that need a transport which this
 * build does not have. Returns the first of them, or NULL. */
static const struct discovery_entry *left_out_log(const struct weft_subsystem *subsystem,
						  const struct discovery_log *log)
{
	const struct discovery_entry *first = NULL;
	char text[DISCOVERY_LEFT_OUT_BYTES];

	for (uint64_t i = 0; i < log->header.entry_count; i++) {
		const struct discovery_entry *entry = &log->entries[i];

		if (!discovery_entry_is_left_out(entry, subsystem->config.subsystem_nqn))
			continue;
		lib_log(subsystem->weft, LOG_LEVEL_WARN, discovery_left_out_text(entry, text));
		if (first == NULL)
			first = entry;
	}
	return first;
}

/* When the options name no subsystem, chooses the only one that the service offers over transports
 * of this build; none if there is none. */
static int log_choose(struct weft_subsystem *subsystem, const struct discovery_log *log,
		      struct weft_error *error)
{
	char *nqn = subsystem->config.subsystem_nqn;

	if (nqn[0] != '\0')
		return 0;
	for (uint64_t i = 0; i < log->header.entry_count; i++) {
		const struct discovery_entry *entry = &log->entries[i];

		if (!discovery_entry_is_usable(entry) || strcmp(entry->subsystem_nqn, nqn) == 0)
			continue;
		if (nqn[0] != '\0')
			return lib_fail(error, -EINVAL,
					"the discovery service offers %s and others; name one",
					nqn);
		text_copy(nqn, NVME_NQN_BYTES, entry->subsystem_nqn);
	}
	return 0;
}

/* left_out: a path that the service offers over a transport of other builds, or NULL. */
static int no_path_fail(const struct weft_subsystem *subsystem,
			const struct discovery_entry *left_out, struct weft_error *error)
{
	const char *nqn = subsystem->config.subsystem_nqn;
	char text[DISCOVERY_LEFT_OUT_BYTES];

	if (left_out != NULL)
		return lib_fail(error, -EPROTONOSUPPORT, "%s",
				discovery_left_out_text(left_out, text));
	if (nqn[0] == '\0')
		return lib_fail(error, -ENOENT,
				"the discovery service offers this host no subsystem over TCP");
	return lib_fail(error, -ENOENT,
			"the discovery service has no path to %s for this host; check the NQN "
			"and which hosts are allowed",
			nqn);
}

static int log_take(struct weft_subsystem *subsystem, const struct discovery_log *log,
		    struct weft_error *error)
{
	const char *nqn = subsystem->config.subsystem_nqn;
	int res = log_choose(subsystem, log, error);
	unsigned before = subsystem->addr_count;
	const struct discovery_entry *left_out;

	if (res != 0)
		return res;
	left_out = left_out_log(subsystem, log);
	for (uint64_t i = 0; nqn[0] != '\0' && i < log->header.entry_count; i++) {
		const struct discovery_entry *entry = &log->entries[i];
		struct weft_path path = {.address = entry->address, .service = entry->service};
		struct host_addr addr;

		if (!discovery_entry_is_usable(entry) || strcmp(entry->subsystem_nqn, nqn) != 0)
			continue;
		res = open_args_resolve(&path, NVME_TCP_DEFAULT_PORT, &addr, error);
		addr.transport = host_transport_of(entry->transport);
		if (res == 0)
			res = addr_add(subsystem, &addr, error);
		if (res != 0)
			return res;
	}
	return subsystem->addr_count > before ? 0 : no_path_fail(subsystem, left_out, error);
}

static int discovery_take(struct weft_subsystem *subsystem, const struct weft_path *path,
			  struct weft_error *error)
{
	const struct mpath_config *config = &subsystem->config;
	struct host_config host = {
		.subsystem_nqn = NVME_DISCOVERY_NQN,
		.host_id = config->host_id,
		.connect_timeout_ms = config->timeouts.connect_ms,
		.command_timeout_ms = config->timeouts.command_ms,
		.wants_header_digest = config->wants_header_digest,
		.wants_data_digest = config->wants_data_digest,
	};
	struct host_error why = {0};
	struct discovery_log log;
	int res;

	text_copy(host.host_nqn, sizeof(host.host_nqn), config->host_nqn);
	res = open_args_resolve(path, NVME_TCP_DISCOVERY_PORT, &host.addr, error);
	if (res != 0)
		return res;
	res = discovery_log_fetch(&host, &log, &why);
	if (res != 0) {
		if (error != NULL)
			error->status = why.status.value & 0x7ff;
		return lib_fail(error, res, "discovery: %s", why.text);
	}
	res = log_take(subsystem, &log, error);
	discovery_log_free(&log);
	return res;
}

static int addrs_take(struct weft_subsystem *subsystem, const struct weft_open_options *options,
		      struct weft_error *error)
{
	int res = 0;

	if (options->path_count == 0 && options->discovery == NULL)
		return lib_fail(error, -EINVAL, "neither a path nor a discovery service is given");
	subsystem->addrs = calloc(MPATH_PATHS_MAX, sizeof(*subsystem->addrs));
	if (subsystem->addrs == NULL)
		return lib_fail(error, -ENOMEM, "out of memory");
	for (unsigned i = 0; res == 0 && i < options->path_count; i++) {
		struct host_addr addr;

		res = open_args_resolve(&options->paths[i], NVME_TCP_DEFAULT_PORT, &addr, error);
		if (res == 0)
			res = addr_add(subsystem, &addr, error);
	}
	if (res == 0 && options->discovery != NULL)
		res = discovery_take(subsystem, options->discovery, error);
	return res;
}

int open_args_take(struct weft_subsystem *subsystem, const struct weft_open_options *options,
		   struct weft_error *error)
{
	struct mpath_config *config = &subsystem->config;
	const struct weft *weft = subsystem->weft;
	int res;

	*config = (struct mpath_config){
		.host_id = weft->host_id,
		.policy = PATH_POLICY_QUEUE_DEPTH,
		.hedge = {.percentile = options->hedge_percentile,
			  .extra_percent = options->hedge_extra_percent},
		.wants_header_digest = options->header_digest,
		.wants_data_digest = options->data_digest,
		.zero_copy_min_bytes = options->zero_copy_bytes,
		.seed = clock_monotonic_ns(),
	};
	text_copy(config->host_nqn, sizeof(config->host_nqn), weft->host_nqn);
	subsystem->event = options->event;
	subsystem->event_arg = options->event_arg;
	if (options->subsystem_nqn != NULL) {
		res = nqn_take(options->subsystem_nqn, config->subsystem_nqn, error);
		if (res != 0)
			return res;
	} else if (options->discovery == NULL) {
		return lib_fail(error, -EINVAL,
				"name the subsystem, or a discovery service that lists it");
	}
	res = timeouts_take(&config->timeouts, options, error);
	if (res != 0)
		return res;
	if (options->policy != NULL && path_policy_parse(options->policy, &config->policy) != 0)
		return lib_fail(error, -EINVAL,
				"there is no policy \"%s\"; use numa, round-robin, queue-depth or "
				"latency",
				options->policy);
	res = queues_take(subsystem, options, error);
	if (res != 0)
		return res;
	return addrs_take(subsystem, options, error);
}
