/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The output of `weft list-subsys`: the words and JSON members of nvme-cli's list-subsys, followed
 * by what nvme-cli lacks (policy, controller, latency, how a lost path is fenced). Runs on the
 * mpath's reactor, which is the main thread.
 */
#include "base/tool_error.h"
#include "cli/cli.h"
#include "cli/list_subsys.h"
#include "cli/print.h"

#include <jansson.h>
#include <stdio.h>

#define SUBSYS_NAME "weft-subsys0"

/* The kernel's names. */
static const char *state_name(enum path_state state)
{
	switch (state) {
	case PATH_LIVE:
		return "live";
	case PATH_CLOSING:
		return "deleting";
	default:
		return "connecting";
	}
}

/* The ANA state of all namespaces on this path; "mixed" when they differ, "" without namespaces. */
static const char *path_ana_name_of_all(struct mpath *mpath, unsigned index)
{
	const char *name = "";
	struct mpath_ns *ns;
	struct ns_info info = {0};

	while ((ns = mpath_ns_next(mpath, info.nsid)) != NULL) {
		const char *this_name;

		mpath_ns_info(ns, &info);
		this_name = ana_state_name(mpath_path_ana(mpath, index, info.nsid));
		if (name[0] != 0 && name != this_name)
			return "mixed";
		name = this_name;
	}
	return name;
}

static void address_format(const struct path_info *info, char *text, size_t text_bytes)
{
	char host[NET_ADDR_TEXT_BYTES];

	snprintf(text, text_bytes, "traddr=%s,trsvcid=%u",
		 net_addr_format_host(&info->addr.net, host), net_addr_port(&info->addr.net));
}

/* ---- text ----------------------------------------------------------------------------------- */

static void path_print_mixed(struct mpath *mpath, unsigned index)
{
	struct mpath_ns *ns;
	struct ns_info info = {0};

	while ((ns = mpath_ns_next(mpath, info.nsid)) != NULL) {
		mpath_ns_info(ns, &info);
		printf("      ns %u %s\n", info.nsid,
		       ana_state_name(mpath_path_ana(mpath, index, info.nsid)));
	}
}

static void path_print_more(const struct path_info *info)
{
	if (info->state == PATH_LIVE) {
		printf("      controller %u, %u queues of %u commands, %s, CQT %u ms%s\n",
		       info->cntlid, info->queue_count, info->queue_depth,
		       info->has_reset ? "fails over by Cross-Controller Reset"
				       : "fails over by time (KATO, CQT)",
		       info->quiesce_ms, info->is_stable ? "" : ", unstable");
		if (info->rtt_ns != 0)
			printf("      round trip %llu us\n",
			       (unsigned long long)info->rtt_ns / 1000);
	}
	if (info->losses != 0)
		printf("      lost %llu times\n", (unsigned long long)info->losses);
}

static void path_print(const struct list_subsys_options *options, struct mpath *mpath,
		       unsigned index)
{
	const char *ana;
	struct path_info info;
	char address[128];

	mpath_path_info(mpath, index, &info);
	address_format(&info, address, sizeof(address));
	ana = info.state == PATH_LIVE ? path_ana_name_of_all(mpath, index) : "";
	printf(" +- weft%u %s %s %s%s%s\n", index, host_addr_transport_name(&info.addr), address,
	       state_name(info.state), ana[0] != 0 ? " " : "", ana);
	if (ana[0] == 'm')
		path_print_mixed(mpath, index);
	if (options->is_verbose)
		path_print_more(&info);
	if (info.refusal[0] != 0)
		printf("      %s\n", cli_shown(info.refusal));
	else if (info.state != PATH_LIVE && info.last_error[0] != 0)
		printf("      %s\n", cli_shown(info.last_error));
}

static void text_print(const struct list_subsys_options *options, struct mpath *mpath)
{
	int indent = (int)sizeof(SUBSYS_NAME) - 1;

	printf("%s - NQN=%s\n", SUBSYS_NAME, cli_shown(options->config.subsystem_nqn));
	printf("%*s   hostnqn=%s\n", indent, "", cli_shown(options->config.host_nqn));
	printf("%*s   iopolicy=%s\n", indent, "", path_policy_name(mpath_policy(mpath)));
	printf("\\\n");
	for (unsigned i = 0; i < mpath_path_count(mpath); i++)
		path_print(options, mpath, i);
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static json_t *path_ana_to_json(struct mpath *mpath, unsigned index)
{
	json_t *array = json_array();
	struct mpath_ns *ns;
	struct ns_info info = {0};

	while ((ns = mpath_ns_next(mpath, info.nsid)) != NULL) {
		mpath_ns_info(ns, &info);
		json_array_append_new(
			array, json_pack("{s:I, s:s}", "NSID", (json_int_t)info.nsid, "ANAState",
					 ana_state_name(mpath_path_ana(mpath, index, info.nsid))));
	}
	return array;
}

static json_t *path_to_json(struct mpath *mpath, unsigned index)
{
	struct path_info info;
	char name[16], address[128];
	json_t *path;

	mpath_path_info(mpath, index, &info);
	address_format(&info, address, sizeof(address));
	snprintf(name, sizeof(name), "weft%u", index);
	path = json_pack("{s:s, s:s, s:s, s:s}", "Name", name, "Transport",
			 host_addr_transport_name(&info.addr), "Address", address, "State",
			 state_name(info.state));
	if (path == NULL)
		return NULL;
	if (info.state == PATH_LIVE) {
		json_object_set_new(path, "ANAState",
				    json_string(path_ana_name_of_all(mpath, index)));
		json_object_set_new(path, "Namespaces", path_ana_to_json(mpath, index));
		json_object_set_new(path, "Cntlid", json_integer(info.cntlid));
		json_object_set_new(path, "Queues", json_integer(info.queue_count));
		json_object_set_new(path, "QueueDepth", json_integer(info.queue_depth));
		json_object_set_new(path, "CrossControllerReset", json_boolean(info.has_reset));
		json_object_set_new(path, "QuiesceMs", json_integer(info.quiesce_ms));
		json_object_set_new(path, "RoundTripNs", json_integer((json_int_t)info.rtt_ns));
	}
	json_object_set_new(path, "Stable", json_boolean(info.is_stable));
	json_object_set_new(path, "Losses", json_integer((json_int_t)info.losses));
	if (info.last_error[0] != 0)
		json_object_set_new(path, "LastError", cli_json_text(info.last_error));
	if (info.refusal[0] != 0)
		json_object_set_new(path, "Refusal", cli_json_text(info.refusal));
	return path;
}

static int json_print(const struct list_subsys_options *options, struct mpath *mpath)
{
	char host_id[UUID_TEXT_BYTES];
	json_t *paths = json_array(), *root;
	int res;

	for (unsigned i = 0; i < mpath_path_count(mpath); i++)
		json_array_append_new(paths, path_to_json(mpath, i));
	root = json_pack("[{s:o, s:s, s:[{s:s, s:o, s:s, s:o}]}]", "HostNQN",
			 cli_json_text(options->config.host_nqn), "HostID",
			 uuid_format(&options->config.host_id, host_id), "Subsystems", "Name",
			 SUBSYS_NAME, "NQN", cli_json_text(options->config.subsystem_nqn),
			 "IOPolicy", path_policy_name(mpath_policy(mpath)), "Paths", paths);
	res = cli_json_print(root) != 0 ? CLI_FAILED : CLI_OK;
	if (res != CLI_OK)
		tool_error("list-subsys",
			   "cannot print the paths as JSON: out of memory or output closed");
	json_decref(root);
	return res;
}

int list_subsys_print(const struct list_subsys_options *options, struct mpath *mpath)
{
	bool is_any_live = false;
	int res = CLI_OK;

	for (unsigned i = 0; i < mpath_path_count(mpath); i++) {
		struct path_info info;

		mpath_path_info(mpath, i, &info);
		is_any_live |= info.state == PATH_LIVE;
	}
	if (options->is_json)
		res = json_print(options, mpath);
	else
		text_print(options, mpath);
	return is_any_live ? res : CLI_FAILED;
}
