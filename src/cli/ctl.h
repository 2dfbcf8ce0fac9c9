/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of `weft ctl`: its options, requests to the target, tables for people. A command makes
 * requests of the REST API and nothing more.
 */
#ifndef WEFT_CLI_CTL_H
#define WEFT_CLI_CTL_H

#include "cli/http_client.h"
#include "cli/options.h"

#include <jansson.h>
#include <stdbool.h>

#define CTL_WORDS_MAX   8
#define CTL_COLUMNS_MAX 10
#define CTL_LIMITED_MAX 64

/* The options that a command takes, besides those that all commands take. */
enum ctl_takes {
	CTL_SUBSYSTEM = 1 << 0, /* fields of a subsystem */
	CTL_NS = 1 << 1,
	CTL_PORT = 1 << 2,
	CTL_CHANGE = 1 << 3,      /* --dry-run, --generation */
	CTL_ACKNOWLEDGE = 1 << 4, /* --acknowledge */
	CTL_DELETE_DATA = 1 << 5, /* --delete-data */
};
#define CTL_FIELDS (CTL_SUBSYSTEM | CTL_NS | CTL_PORT)

struct ctl {
	struct http_client client;
	char socket_path[4096 + 16];
	char *token;
	const char *place; /* for messages: the socket or the URL */
	bool is_json;
	bool is_dry_run;
	bool acknowledges;   /* --acknowledge, of health */
	bool deletes_data;   /* --delete-data, of namespace remove */
	uint64_t generation; /* 0: any */
	const char *words[CTL_WORDS_MAX];
	unsigned word_count;
	json_t *fields; /* from options such as --serial; keys as in the document */
	/* Given options that not all commands take. */
	const struct cli_option *limited[CTL_LIMITED_MAX];
	unsigned limited_count;
	bool edits_element; /* the command edits one element, not a whole document */
	bool wants_help;    /* --help */
};

struct config_field;
struct config_object;

/* The detail of an option's row; an option without it is for all commands. */
struct ctl_detail {
	unsigned takes;                   /* for commands with any of these bits */
	const char *whom;                 /* these commands, for messages */
	const char *key;                  /* key of the field in the document */
	const struct config_field *field; /* NULL for "size", which only the REST API has */
	/* Key of the object that has the field; NULL: the element. */
	const char *below;
};

struct ctl_subcommand {
	const char *noun;
	const char *verb; /* NULL: the noun is the whole command */
	int (*run)(struct ctl *ctl);
	const char *words;  /* arguments, for help; in brackets: optional */
	unsigned words_min; /* number of arguments after noun and verb */
	unsigned words_max;
	unsigned takes; /* enum ctl_takes */
	const char *summary;
};

/* cmd_ctl.c: the table of commands. */
int cmd_ctl(int argc, char **argv);
const struct ctl_subcommand *ctl_subcommands(unsigned *ret_count);

/* ctl_args.c. True to continue; false: the exit status is in *ret_exit. */
bool ctl_args_parse(int argc, char **argv, struct ctl *ctl, int *ret_exit);
void ctl_args_free(struct ctl *ctl);
/* True when the command takes all given options; else false after a message. */
bool ctl_args_fit(const struct ctl *ctl, const struct ctl_subcommand *command);
/* Remembers an option that not every command takes. */
void ctl_option_note(void *to, const struct cli_option *given);
/* ctl_fields.c */
const struct cli_option *ctl_field_options(void);
int ctl_unset_take(void *to, const struct cli_given *given);
/* Prints help for one noun, or for all commands (NULL). */
void ctl_help_print(const char *noun);

/* ---- ctl_ask.c: requests ------------------------------------------------------------------- */

/* Returns "/v1" and the path, with each '*' of `format` replaced by the next name or number,
 * URL-encoded. Freed with free(). */
char *ctl_path(const char *format, const char *first, const char *second, const char *third);
/*
 * Makes one request and frees the path. Returns the answer, or NULL after printing the error.
 * Changes carry --dry-run and --generation.
 */
json_t *ctl_get(struct ctl *ctl, char *taken_path);
json_t *ctl_send(struct ctl *ctl, const char *method, char *taken_path, const json_t *body);
/* Makes one request and accepts an answer of any status. 0 or, after a message, -1. */
int ctl_ask(struct ctl *ctl, const struct http_question *question, int *ret_status,
	    json_t **ret_answer);

/* With --json, prints the answer as JSON and returns true. */
bool ctl_print_json(const struct ctl *ctl, const json_t *answer);
/* Prints the result of a change: notes, diff and generation. Frees the answer. Returns the exit
 * status. */
int ctl_print_change(struct ctl *ctl, json_t *taken_answer);

/* ctl_problem.c: prints an error from the target's answer. */
void ctl_problem_print(const struct ctl *ctl, const char *text);

/* ---- ctl_table.c ------------------------------------------------------------------------------
 */

struct ctl_table {
	unsigned columns;
	char **cells; /* the first row holds the titles */
	unsigned rows;
};

/* The titles end with NULL. A title that begins with '>' is for a column of numbers. */
void ctl_table_begin(struct ctl_table *table, const char *const *titles);
/* Adds a row with one string for each column; the strings are copied. */
void ctl_table_row(struct ctl_table *table, const char *const *texts);
/* Prints and frees the table. Prints `none` when it has no rows. */
void ctl_table_end(struct ctl_table *table, const char *none);

/* Formats a field for people: a list is joined, true and false become yes and no, a missing field
 * "-". Returns `text`. */
const char *ctl_text(const json_t *object, const char *key, char *text, size_t text_bytes);
/* Formats seconds since 1970 as "2026-11-16T01:02:03Z". Returns `text`. */
const char *ctl_time(const json_t *object, const char *key, char *text, size_t text_bytes);
uint64_t ctl_number(const json_t *object, const char *key);

/* ---- ctl_show.c: one object, a line for each field --------------------------------------------
 */

/* A field that is not shown as one line with its key and value. */
struct ctl_special {
	const char *key; /* NULL ends the list */
	/* Also called when the answer lacks the key. NULL: the field is shown elsewhere. */
	void (*show)(const json_t *answer);
};

/* Prints the fields of the answer in the order of the object's table. */
void ctl_object_show(const json_t *answer, const struct config_object *object,
		     const struct ctl_special *specials);
/* Prints one line; "-" when the answer lacks the key. The key need not be in the table. */
void ctl_field_show(const json_t *answer, const struct config_object *object, const char *key);
/* Width of the key column, in characters. */
int ctl_key_width(const struct config_object *object);

/* ---- commands ---------------------------------------------------------------------------------
 */

int ctl_status(struct ctl *ctl); /* ctl_state.c */
int ctl_health(struct ctl *ctl);
int ctl_audit(struct ctl *ctl);
int ctl_connections(struct ctl *ctl);
int ctl_peers(struct ctl *ctl);
int ctl_reservations(struct ctl *ctl);
int ctl_reservation_clear(struct ctl *ctl);
int ctl_removed(struct ctl *ctl);
int ctl_removed_drop(struct ctl *ctl);
int ctl_history(struct ctl *ctl); /* ctl_history.c */
int ctl_rollback(struct ctl *ctl);
int ctl_export(struct ctl *ctl); /* ctl_config.c */
int ctl_apply(struct ctl *ctl);
int ctl_import(struct ctl *ctl);
int ctl_subsystem_list(struct ctl *ctl); /* ctl_subsystem.c */
int ctl_subsystem_show(struct ctl *ctl);
int ctl_subsystem_add(struct ctl *ctl);
int ctl_subsystem_set(struct ctl *ctl);
int ctl_subsystem_remove(struct ctl *ctl);
int ctl_host_list(struct ctl *ctl);
int ctl_host_add(struct ctl *ctl);
int ctl_host_remove(struct ctl *ctl);
int ctl_host_rights(struct ctl *ctl);
int ctl_ns_list(struct ctl *ctl); /* ctl_ns.c */
int ctl_ns_recheck(struct ctl *ctl);
int ctl_ns_recreate(struct ctl *ctl);
int ctl_ns_show(struct ctl *ctl);
int ctl_ns_add(struct ctl *ctl);
int ctl_ns_set(struct ctl *ctl);
int ctl_ns_resize(struct ctl *ctl);
int ctl_ns_remove(struct ctl *ctl);
int ctl_port_list(struct ctl *ctl); /* ctl_port.c */
int ctl_port_show(struct ctl *ctl);
int ctl_port_add(struct ctl *ctl);
int ctl_port_set(struct ctl *ctl);
int ctl_port_remove(struct ctl *ctl);
int ctl_ana_list(struct ctl *ctl);
int ctl_ana_set(struct ctl *ctl);

#endif
