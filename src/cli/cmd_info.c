/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `weft info`: the version, the kernel, the CPUs that may be used, and the io_uring features that
 * were found, for people or as JSON. Main thread; starts nothing and needs no privileges.
 */
#include "base/check.h"
#include "cli/cli.h"
#include "cli/options.h"
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
						     : "done without");
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

static const struct option long_options[] = {
	{"output-format", required_argument, NULL, 'o'},
	{"help", no_argument, NULL, 'h'},
	{0},
};

const struct cli_options info_cli_options = {"o:h", long_options};

int cmd_info(int argc, char **argv)
{
	struct uring_caps caps = {0};
	struct utsname kernel;
	bool is_json = false;
	int res;
	int c;

	while ((c = cli_getopt("info", &info_cli_options, argc, argv)) != -1) {
		if (c == 'h') {
			printf("Usage: weft info [OPTION]...\n\n"
			       "Shows what this machine and this build can do.\n\n"
			       "  -o, --output-format FMT   normal or json (normal)\n"
			       "  -h, --help                this text\n\n"
			       "Example:\n  weft info -o json\n");
			return CLI_OK;
		}
		if (c != 'o')
			return cli_usage_hint("info");
		is_json = strcmp(optarg, "json") == 0;
		if (!is_json && strcmp(optarg, "normal") != 0)
			return cli_value_error("info", "output-format", optarg);
	}
	if (optind < argc)
		return cli_usage_error("info", "unexpected argument \"%s\"", argv[optind]);
	CHECK(uname(&kernel) == 0);
	res = uring_caps_probe(&caps);
	if (is_json)
		info_print_json(&kernel, &caps, res);
	else
		info_print_text(&kernel, &caps, res);
	return res == 0 ? CLI_OK : CLI_FAILED;
}
