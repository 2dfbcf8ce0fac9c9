/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of `weft ctl`: where the target is, how to print, and one option for each field of
 * the document, which become a JSON object with the document's keys. What a value may be is the
 * target's business: it tells what is wrong and where.
 *
 * Main thread.
 */
#include "base/check.h"
#include "base/text.h"
#include "base/tool_error.h"
#include "cli/cli.h"
#include "cli/ctl.h"
#include "cli/options.h"
#include "control/api.h"
#include "control/state.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOKEN_BYTES_MAX 4096
#define FIELD_BASE      2000

enum field_type {
	FIELD_TEXT,
	FIELD_NUMBER,
	FIELD_BOOL,
	FIELD_LIST,  /* repeatable; "none" is the empty list */
	FIELD_HOSTS, /* likewise; "any" is no list at all */
	FIELD_POOL,  /* a key of the object "pool" */
};

struct field {
	const char *option;
	const char *key;
	enum field_type type;
	unsigned nouns;
};

static const struct field fields[] = {
	{"serial", "serial", FIELD_TEXT, CTL_SUBSYSTEM},
	{"model", "model", FIELD_TEXT, CTL_SUBSYSTEM},
	{"allow-any-host", "allow_any_host", FIELD_BOOL, CTL_SUBSYSTEM},
	{"pool-folder", "folder", FIELD_POOL, CTL_SUBSYSTEM},
	{"pool-capacity", "capacity", FIELD_POOL, CTL_SUBSYSTEM},
	{"host", "hosts", FIELD_HOSTS, CTL_SUBSYSTEM | CTL_NS},
	{"nsid", "nsid", FIELD_NUMBER, CTL_NS},
	{"media", "media", FIELD_TEXT, CTL_NS},
	{"size", "size", FIELD_TEXT, CTL_NS},
	{"uuid", "uuid", FIELD_TEXT, CTL_NS},
	{"nguid", "nguid", FIELD_TEXT, CTL_NS},
	{"read-only", "read_only", FIELD_BOOL, CTL_NS},
	{"ana-group", "ana_group", FIELD_NUMBER, CTL_NS},
	{"hidden-from", "hidden_from", FIELD_LIST, CTL_NS},
	{"write-protect", "write_protect", FIELD_TEXT, CTL_NS},
	{"private", "private", FIELD_BOOL, CTL_NS},
	{"clustered", "clustered", FIELD_BOOL, CTL_NS},
	{"label", "label", FIELD_TEXT, CTL_NS},
	{"id", "id", FIELD_NUMBER, CTL_PORT},
	{"address", "address", FIELD_TEXT, CTL_PORT},
	{"service", "service", FIELD_TEXT, CTL_PORT},
	{"advertise", "advertise", FIELD_TEXT, CTL_PORT},
	{"subsystem", "subsystems", FIELD_LIST, CTL_PORT},
	{"discovery", "discovery", FIELD_BOOL, CTL_PORT},
	{"zero-copy", "zero_copy", FIELD_TEXT, CTL_PORT},
	{"zero-copy-min-bytes", "zero_copy_min_bytes", FIELD_NUMBER, CTL_PORT},
};

enum ctl_option {
	OPTION_STATE = 1000,
	OPTION_SOCKET,
	OPTION_URL,
	OPTION_TOKEN_FILE,
	OPTION_JSON,
	OPTION_DRY_RUN,
	OPTION_GENERATION,
	OPTION_UNSET,
	OPTION_ACKNOWLEDGE,
	OPTION_DELETE_DATA,
};

static const struct option common_options[] = {
	{"state", required_argument, NULL, OPTION_STATE},
	{"socket", required_argument, NULL, OPTION_SOCKET},
	{"url", required_argument, NULL, OPTION_URL},
	{"token-file", required_argument, NULL, OPTION_TOKEN_FILE},
	{"json", no_argument, NULL, OPTION_JSON},
	{"dry-run", no_argument, NULL, OPTION_DRY_RUN},
	{"generation", required_argument, NULL, OPTION_GENERATION},
	{"unset", required_argument, NULL, OPTION_UNSET},
	{"acknowledge", no_argument, NULL, OPTION_ACKNOWLEDGE},
	{"delete-data", no_argument, NULL, OPTION_DELETE_DATA},
	{"help", no_argument, NULL, 'h'},
};

/* All of them for getopt_long, filled on first use: the common ones, then one per field. */
static struct option all_options[ARRAY_LEN(common_options) + ARRAY_LEN(fields) + 1];

const struct cli_options ctl_cli_options = {"h", all_options};

void ctl_options_fill(void)
{
	memcpy(all_options, common_options, sizeof(common_options));
	for (unsigned i = 0; i < ARRAY_LEN(fields); i++)
		all_options[ARRAY_LEN(common_options) + i] = (struct option){
			fields[i].option, required_argument, NULL, FIELD_BASE + (int)i};
}

/* ---- help ----------------------------------------------------------------------------------- */

/* "off|auto|on" */
static const char *value_words(const struct cli_value *value)
{
	static char text[128];

	text_copy(text, sizeof(text), value->words);
	for (char *c = text; *c; c++)
		*c = *c == ' ' ? '|' : *c;
	return text;
}

static void fields_print(unsigned nouns)
{
	static const char *const values[] = {"TEXT",         "N",   "yes|no", "NQN|none",
					     "NQN|any|none", "TEXT"};

	printf("\nFields:\n");
	for (unsigned i = 0; i < ARRAY_LEN(fields); i++) {
		const struct cli_value *value = cli_value_find(fields[i].option);

		if (fields[i].nouns & nouns)
			printf("  --%s %s%s\n", fields[i].option,
			       value && value->words ? value_words(value) : values[fields[i].type],
			       fields[i].type == FIELD_LIST || fields[i].type == FIELD_HOSTS
				       ? "   (repeatable)"
				       : "");
	}
	printf("  --unset FIELD   gives a field its default again (repeatable)\n"
	       "What they mean: weft.json(5).\n");
}

void ctl_help_print(const char *noun)
{
	const struct ctl_command *commands;
	unsigned count, field_nouns = 0;

	commands = ctl_commands(&count);
	printf("Usage: weft ctl [--state DIR | --socket PATH | --url http://ADDR:PORT "
	       "--token-file FILE]\n                [--json] %s\n\n"
	       "Shows and changes a running target, through its REST API.\n\n",
	       noun ? noun : "COMMAND [WORD]... [OPTION]...");
	for (unsigned i = 0; i < count; i++) {
		char line[96];

		if (noun && strcmp(noun, commands[i].noun) != 0)
			continue;
		field_nouns |= commands[i].fields;
		snprintf(line, sizeof(line), "%s%s%s%s%s", commands[i].noun,
			 commands[i].verb ? " " : "", commands[i].verb ? commands[i].verb : "",
			 commands[i].words[0] ? " " : "", commands[i].words);
		printf("  %-36s %s\n", line, commands[i].summary);
	}
	printf("\nEvery change takes --dry-run, which prints the difference and changes nothing,\n"
	       "and --generation N, which refuses when something else has changed since.\n"
	       "--json prints what the target answers. namespace may be written ns.\n");
	if (noun && field_nouns)
		fields_print(field_nouns);
	if (!noun)
		printf("\n`weft ctl COMMAND --help` explains one of them; see weft-ctl(1).\n"
		       "\nExamples:\n  weft ctl status\n"
		       "  weft ctl namespace add nqn.2026-11.io.weft:default --media mem:1G\n"
		       "  weft ctl apply weft.json --dry-run\n");
}

/* ---- fields --------------------------------------------------------------------------------- */

static bool bool_parse(const char *text, bool *ret_value)
{
	*ret_value = strcmp(text, "yes") == 0 || strcmp(text, "true") == 0;
	return *ret_value || strcmp(text, "no") == 0 || strcmp(text, "false") == 0;
}

static json_t *object_below(json_t *object, const char *key, json_t *taken_new)
{
	json_t *below = json_object_get(object, key);

	if (below) {
		json_decref(taken_new);
		return below;
	}
	json_object_set_new(object, key, taken_new);
	return json_object_get(object, key);
}

/* One of a list. 0 or, after a message, -1. */
static int list_take(struct ctl *ctl, const struct field *field, json_t *taken_value)
{
	const char *text = json_string_value(taken_value);
	bool is_any = field->type == FIELD_HOSTS && strcmp(text, "any") == 0;
	const json_t *given = json_object_get(ctl->fields, field->key);

	if (given && (is_any || json_is_string(given))) {
		json_decref(taken_value);
		cli_usage_error("ctl", "--%s any stands alone: any host, or those that are listed",
				field->option);
		return -1;
	}
	if (is_any)
		return json_object_set_new(ctl->fields, field->key, taken_value);
	object_below(ctl->fields, field->key, json_array());
	if (strcmp(text, "none") != 0)
		json_array_append(json_object_get(ctl->fields, field->key), taken_value);
	json_decref(taken_value);
	return 0;
}

/* 0 or, after a message, -1. */
static int field_take(struct ctl *ctl, const struct field *field, const char *text)
{
	json_t *json = json_string(text);
	uint64_t number;
	bool value;

	ctl->nouns &= field->nouns;
	if (!json)
		return cli_usage_error("ctl", "--%s: the text is not UTF-8", field->option), -1;
	switch (field->type) {
	case FIELD_HOSTS:
	case FIELD_LIST:
		return list_take(ctl, field, json);
	case FIELD_POOL:
		return json_object_set_new(object_below(ctl->fields, "pool", json_object()),
					   field->key, json);
	case FIELD_NUMBER:
		json_decref(json);
		if (text_parse_u64(text, INT64_MAX, &number) < 0)
			return cli_usage_error("ctl", "--%s: \"%s\" must be a number",
					       field->option, text),
			       -1;
		return json_object_set_new(ctl->fields, field->key, json_integer((int64_t)number));
	case FIELD_BOOL:
		json_decref(json);
		if (!bool_parse(text, &value))
			return cli_usage_error("ctl", "--%s: \"%s\" must be yes or no",
					       field->option, text),
			       -1;
		return json_object_set_new(ctl->fields, field->key, json_boolean(value));
	default:
		return json_object_set_new(ctl->fields, field->key, json);
	}
}

static int unset_take(struct ctl *ctl, const char *name)
{
	for (unsigned i = 0; i < ARRAY_LEN(fields); i++) {
		if (strcmp(fields[i].option, name) != 0 && strcmp(fields[i].key, name) != 0)
			continue;
		ctl->nouns &= fields[i].nouns;
		return json_object_set_new(ctl->fields,
					   fields[i].type == FIELD_POOL ? "pool" : fields[i].key,
					   json_null());
	}
	cli_usage_error("ctl", "--unset: there is no field \"%s\"", name);
	return -1;
}

/* ---- where the target is -------------------------------------------------------------------- */

static int url_take(struct ctl *ctl, char *url)
{
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
	cli_usage_error("ctl", "--url must be http://ADDRESS:PORT");
	return -1;
}

static int token_take(struct ctl *ctl, const char *path)
{
	FILE *file = fopen(path, "re");
	size_t n;

	ctl->token = calloc(1, TOKEN_BYTES_MAX);
	if (!file || !ctl->token) {
		tool_error("ctl", "--token-file %s: %m", path);
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

static int state_take(struct ctl *ctl, const char *dir)
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

static int generation_take(struct ctl *ctl, const char *text)
{
	if (text_parse_u64(text, INT64_MAX, &ctl->generation) == 0 && ctl->generation > 0)
		return 0;
	cli_usage_error("ctl", "--generation: \"%s\" must be a number from 1 on", text);
	return -1;
}

/* 0 or, after a message, -1. */
static int option_take(struct ctl *ctl, int c, char *value)
{
	switch (c) {
	case OPTION_STATE:
		return state_take(ctl, value);
	case OPTION_SOCKET:
		ctl->client.socket_path = value;
		return 0;
	case OPTION_URL:
		return url_take(ctl, value);
	case OPTION_TOKEN_FILE:
		return token_take(ctl, value);
	case OPTION_JSON:
		ctl->is_json = true;
		return 0;
	case OPTION_DRY_RUN:
		ctl->is_dry_run = true;
		return 0;
	case OPTION_GENERATION:
		return generation_take(ctl, value);
	case OPTION_UNSET:
		return unset_take(ctl, value);
	case OPTION_ACKNOWLEDGE:
		ctl->acknowledges = true;
		return 0;
	case OPTION_DELETE_DATA:
		ctl->deletes_data = true;
		return 0;
	case 'h':
		ctl->wants_help = true;
		return 0;
	default:
		if (c >= FIELD_BASE && c < FIELD_BASE + (int)ARRAY_LEN(fields))
			return field_take(ctl, &fields[c - FIELD_BASE], value);
		cli_usage_hint("ctl");
		return -1;
	}
}

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
	if (!ctl->client.host && !ctl->client.socket_path && state_take(ctl, NULL) < 0)
		return -1;
	if (!ctl->place)
		ctl->place = strdup(ctl->client.socket_path);
	return 0;
}

int ctl_args_parse(int argc, char **argv, struct ctl *ctl, int *ret_exit)
{
	int c;

	memset(ctl, 0, sizeof(*ctl));
	ctl_options_fill();
	ctl->fields = json_object();
	ctl->nouns = ~0u;
	*ret_exit = CLI_USAGE;
	while ((c = cli_getopt("ctl", &ctl_cli_options, argc, argv)) != -1) {
		if (option_take(ctl, c, optarg) < 0)
			return 1;
	}
	for (; optind < argc; optind++) {
		if (ctl->word_count == CTL_WORDS_MAX) {
			cli_usage_error("ctl", "\"%s\" was not expected", argv[optind]);
			return 1;
		}
		ctl->words[ctl->word_count++] = argv[optind];
	}
	return !ctl->wants_help && place_agree(ctl) < 0;
}

void ctl_args_free(struct ctl *ctl)
{
	json_decref(ctl->fields);
	free(ctl->token);
	free((char *)ctl->place);
}
