/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `weft info`: prints the version, the kernel, the allowed CPUs and the available io_uring
 * features, for people or as JSON. Main thread; starts nothing and needs no privileges.
 */
#include "base/check.h"
#include "cli/cli.h"
#include "cli/print.h"
#include "reactor/uring_caps.h"
#include "reactor/uring_remedy.h"

#include <jansson.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

static unsigned cpus_allowed(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof(set), &set) == 0 ? (unsigned)CPU_COUNT(&set) : 1;
}

static void info_print_text(const struct utsname *kernel, const struct uring_caps *caps, int res)
{
	printf("weft      %s\n", WEFT_VERSION);
	printf("kernel    %s %s %s\n", kernel->sysname, kernel->release, kernel->machine);
	printf("cpus      %u allowed of %ld online\n", cpus_allowed(),
	       sysconf(_SC_NPROCESSORS_ONLN));
	if (res != 0) {
		printf("io_uring  not available: %s; %s\n", strerror(-res), uring_remedy(res));
		return;
	}
	printf("io_uring  feature                        kernel  weft\n");
	for (unsigned i = 0; i < caps->count; i++)
		printf("          %-30s %-7s %s\n", caps->items[i].name,
		       caps->items[i].is_supported ? "yes" : "no",
		       !caps->items[i].is_used       ? "unused"
		       : caps->items[i].is_supported ? "used"
						     : "fallback");
}

static void info_print_json(const struct utsname *kernel, const struct uring_caps *caps, int res)
{
	json_t *features = json_array();
	json_t *root;

	for (unsigned i = 0; res == 0 && i < caps->count; i++)
		json_array_append_new(features,
				      json_pack("{s:s, s:b, s:b}", "name", caps->items[i].name,
						"supported", caps->items[i].is_supported, "used",
						caps->items[i].is_used));
	root = json_pack("{s:s, s:s, s:s, s:i, s:i, s:b, s:o}", "version", WEFT_VERSION, "kernel",
			 kernel->release, "machine", kernel->machine, "cpus_allowed",
			 (int)cpus_allowed(), "cpus_online", (int)sysconf(_SC_NPROCESSORS_ONLN),
			 "io_uring", res == 0, "io_uring_features", features);
	cli_json_print(root);
	json_decref(root);
}

struct info_args {
	bool is_json;
};

static int cmd_info(int argc, char **argv)
{
	struct info_args args = {0};
	struct uring_caps caps = {0};
	struct utsname kernel;
	int res;

	if (!cli_parse(&info_command, argc, argv, &args, &res))
		return res;
	CHECK(uname(&kernel) == 0);
	res = uring_caps_probe(&caps);
	if (args.is_json)
		info_print_json(&kernel, &caps, res);
	else
		info_print_text(&kernel, &caps, res);
	return res == 0 ? CLI_OK : CLI_FAILED;
}

static const struct cli_option options[] = {
	CLI_OUTPUT_FORMAT(struct info_args, is_json),
	{NULL},
};

static const struct cli_group groups[] = {{.options = options}};

const struct cli_command info_command = {
	.name = "info",
	.summary = "show what this machine and this build can do",
	.usage = "[OPTION]...",
	.about = "Shows what this machine and this build can do.\n",
	.groups = groups,
	.group_count = ARRAY_LEN(groups),
	.notes = "Example:\n  weft info -o json\n",
	.fn = cmd_info,
};
