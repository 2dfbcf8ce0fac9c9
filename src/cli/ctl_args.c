/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of `weft ctl`: where the target is, how to print, and options of single commands. The
 * fields of the document are in ctl_fields.c. Main thread.
 */
#include "api/api.h"
#include "base/check.h"
#include "base/text.h"
#include "base/tool_error.h"
#include "cli/cli.h"
#include "cli/ctl.h"
#include "daemon/state.h"

#include <ctype.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOKEN_BYTES_MAX 4096
#define SUMMARY_BELOW   "\n                                       "

/* ---- where the target is -------------------------------------------------------------------- */

static int url_take(void *to, const struct cli_given *given)
{
	struct ctl *ctl = to;
	char *url = (char *)given->value; /* points into argv, split in place */
	static const char scheme[] = "http://";
	uint64_t port = 0;
	char *colon;

	if (strncmp(url, scheme, strlen(scheme)) == 0) {
		char *host = url + strlen(scheme);

		ctl->place = strdup(url);
		host[strcspn(host, "/")] = 0;
		colon = strrchr(host, ':');
		if (colon && text_parse_u64(colon + 1, UINT16_MAX, &port) == 0 && port > 0) {
			*colon = 0;
			if (*host == '[' && colon[-1] == ']') {
				colon[-1] = 0;
				host++;
			}
			ctl->client.host = host;
			ctl->client.port = (uint16_t)port;
			return 0;
		}
	}
	return cli_given_error(given, "must be http://ADDRESS:PORT");
}

static int token_take(void *to, const struct cli_given *given)
{
	struct ctl *ctl = to;
	FILE *file = fopen(given->value, "re");
	size_t n;

	ctl->token = calloc(1, TOKEN_BYTES_MAX);
	if (!file || !ctl->token) {
		tool_error("ctl", "--token-file %s: %m", given->value);
		if (file)
			fclose(file);
		return -1;
	}
	n = fread(ctl->token, 1, TOKEN_BYTES_MAX - 1, file);
	fclose(file);
	while (n > 0 && isspace((unsigned char)ctl->token[n - 1]))
		ctl->token[--n] = 0;
	ctl->client.token = ctl->token;
	return 0;
}

/* Sets the socket from the state folder; dir NULL: the default folder. 0 or, after a message,
 * -1. */
static int state_use(struct ctl *ctl, const char *dir)
{
	char chosen[4096];
	int n;

	if (!dir && state_default_dir(chosen, sizeof(chosen)) < 0) {
		cli_usage_error("ctl", "neither HOME nor XDG_STATE_HOME is set; name the state "
				       "folder with --state");
		return -1;
	}
	n = snprintf(ctl->socket_path, sizeof(ctl->socket_path), "%s/%s", dir ? dir : chosen,
		     API_SOCKET_NAME);
	ctl->client.socket_path = ctl->socket_path;
	if (n < (int)sizeof(ctl->socket_path))
		return 0;
	cli_usage_error("ctl", "--state: the path is too long");
	return -1;
}

static int state_take(void *to, const struct cli_given *given)
{
	return state_use(to, given->value);
}

static int generation_take(void *to, const struct cli_given *given)
{
	struct ctl *ctl = to;

	if (text_parse_u64(given->value, INT64_MAX, &ctl->generation) == 0 && ctl->generation > 0)
		return 0;
	return cli_given_error(given, "must be a number, 1 or more, not \"%s\"", given->value);
}

/* ---- the table ------------------------------------------------------------------------------ */

#define OF(takes_, whom_)                                                                          \
	.detail = &(const struct ctl_detail)                                                       \
	{                                                                                          \
		takes_, whom_                                                                      \
	}
static const struct cli_option common_options[] = {
	{"state", 0, "DIR", "state folder of the target (default as in weft serve)",
	 .is_path = true, .take = state_take},
	{"socket", 0, "PATH", "socket of a target started with --api-socket", .is_path = true,
	 CLI_TEXT(struct ctl, client.socket_path)},
	{"url", 0, "http://ADDR:PORT", "address of a target started with --api-listen",
	 .take = url_take},
	{"token-file", 0, "FILE", "file with the token for --url", .is_path = true,
	 .take = token_take},
	{"json", 0, NULL, "print the target's answer as JSON", CLI_SWITCH(struct ctl, is_json)},
	{"dry-run", 0, NULL, "print what would change, and change nothing",
	 CLI_SWITCH(struct ctl, is_dry_run), OF(CTL_CHANGE, "changes of the document")},
	{"generation", 0, "N", "refuse the change unless the generation is N",
	 .take = generation_take, OF(CTL_CHANGE, "changes of the document")},
	{"unset", 0, "FIELD", "reset a field to its default; repeatable", .take = ctl_unset_take,
	 OF(CTL_FIELDS, "add and set of subsystems, namespaces and ports")},
	{"acknowledge", 0, NULL, "stop reporting the media errors so far",
	 CLI_SWITCH(struct ctl, acknowledges), OF(CTL_ACKNOWLEDGE, "health")},
	{"delete-data", 0, NULL,
	 "also delete the namespace's file in the pool, or give up the data of a deleted file",
	 CLI_SWITCH(struct ctl, deletes_data), OF(CTL_DELETE_DATA, "namespace remove")},
	{"help", 'h', NULL, "show this help", CLI_SWITCH(struct ctl, wants_help)},
	{NULL},
};

static const struct cli_group groups[] = {{"Options", common_options},
					  {"Fields", .make = ctl_field_options}};

/* Remembers each option that not every command takes, once. */
void ctl_option_note(void *to, const struct cli_option *given)
{
	struct ctl *ctl = to;

	for (unsigned i = 0; i < ctl->limited_count; i++)
		if (ctl->limited[i] == given)
			return;
	if (given->detail) {
		CHECK(ctl->limited_count < CTL_LIMITED_MAX);
		ctl->limited[ctl->limited_count++] = given;
	}
}

const struct cli_command ctl_command = {
	.name = "ctl",
	.summary = "show and change a running target",
	.usage = "[--state DIR | --socket PATH] COMMAND [WORD]... [OPTION]... [FIELD]...\n"
		 "--url http://ADDR:PORT --token-file FILE COMMAND [WORD]... [OPTION]...",
	.about = "Shows and changes a running target, through its REST API.\n",
	.groups = groups,
	.group_count = ARRAY_LEN(groups),
	.has_own_help = true,
	.takes_words = true,
	.note = ctl_option_note,
	.fn = cmd_ctl,
};

bool ctl_args_fit(const struct ctl *ctl, const struct ctl_subcommand *command)
{
	for (unsigned i = 0; i < ctl->limited_count; i++) {
		const struct ctl_detail *detail = ctl->limited[i]->detail;

		if (detail->takes & command->takes)
			continue;
		cli_usage_error("ctl", "%s%s%s does not take --%s, which is for %s", command->noun,
				command->verb ? " " : "", command->verb ? command->verb : "",
				ctl->limited[i]->name, detail->whom);
		return false;
	}
	return true;
}

/* ---- help ----------------------------------------------------------------------------------- */

/* Prints the options that all commands take, or that commands with these bits take. */
static void options_print(const struct cli_group *group, unsigned takes)
{
	printf("\n%s:\n", group->heading);
	for (const struct cli_option *option = cli_group_options(group); option->name; option++) {
		const struct ctl_detail *detail = option->detail;

		if (!detail || (detail->takes & takes))
			cli_help_option_print(option);
	}
}

void ctl_help_print(const char *noun)
{
	const struct ctl_subcommand *commands;
	unsigned count, takes = 0;

	commands = ctl_subcommands(&count);
	cli_help_usage_print(&ctl_command);
	printf("\n%s\nCommands:\n", ctl_command.about);
	for (unsigned i = 0; i < count; i++) {
		char line[96];

		if (noun && strcmp(noun, commands[i].noun) != 0)
			continue;
		takes |= commands[i].takes;
		snprintf(line, sizeof(line), "%s%s%s%s%s", commands[i].noun,
			 commands[i].verb ? " " : "", commands[i].verb ? commands[i].verb : "",
			 commands[i].words[0] ? " " : "", commands[i].words);
		printf("  %-36s%s%s\n", line, strlen(line) > 36 ? SUMMARY_BELOW : " ",
		       commands[i].summary);
	}
	if (!noun || strcmp(noun, "namespace") == 0)
		printf("namespace may be written ns.\n");
	options_print(&groups[0], takes);
	if (noun && (takes & CTL_FIELDS)) {
		options_print(&groups[1], takes);
		printf("\nMore about fields: weft.json(5).\n");
	}
	if (!noun)
		printf("\n`weft ctl COMMAND --help` explains a command and its fields; see "
		       "weft-ctl(1).\n"
		       "\nExamples:\n  weft ctl status\n"
		       "  weft ctl namespace add nqn.2026-11.io.weft:default --media mem:1G\n"
		       "  weft ctl apply weft.json --dry-run\n");
}

/* ---- parsing ------------------------------------------------------------------------------- */

static int place_agree(struct ctl *ctl)
{
	if (ctl->client.host && ctl->client.socket_path) {
		cli_usage_error("ctl", "use one of --url, --socket and --state");
		return -1;
	}
	if (ctl->token && !ctl->client.host) {
		cli_usage_error("ctl", "--token-file is for --url");
		return -1;
	}
	if (!ctl->client.host && !ctl->client.socket_path && state_use(ctl, NULL) < 0)
		return -1;
	if (!ctl->place)
		ctl->place = strdup(ctl->client.socket_path);
	return 0;
}

bool ctl_args_parse(int argc, char **argv, struct ctl *ctl, int *ret_exit)
{
	memset(ctl, 0, sizeof(*ctl));
	ctl->fields = json_object();
	if (!cli_parse(&ctl_command, argc, argv, ctl, ret_exit))
		return false;
	*ret_exit = CLI_USAGE;
	for (; optind < argc; optind++) {
		if (ctl->word_count == CTL_WORDS_MAX) {
			cli_usage_error("ctl", "unexpected argument \"%s\"", argv[optind]);
			return false;
		}
		ctl->words[ctl->word_count++] = argv[optind];
	}
	return ctl->wants_help || place_agree(ctl) == 0;
}

void ctl_args_free(struct ctl *ctl)
{
	json_decref(ctl->fields);
	free(ctl->token);
	free((char *)ctl->place);
}
