/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of a sub-command as rows of a table. From the same rows come what getopt_long reads,
 * `--help`, the completions of shells, and what the manual page must have (tools/manual). A row
 * says where its value goes: into a field of what the sub-command is told to do, or to a function.
 *
 * A new option is a row, and a paragraph in the manual page.
 */
#ifndef WEFT_CLI_OPTIONS_H
#define WEFT_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cli_command;
struct cli_option;

/* An option as it was given on the command line. */
struct cli_given {
	const char *command; /* the sub-command, for messages */
	const struct cli_option *option;
	const char *value; /* NULL: none */
};

/* Where a value goes, and what it may be. */
enum cli_kind {
	CLI_KIND_TAKE,   /* to take() */
	CLI_KIND_SWITCH, /* no value: a bool becomes true */
	CLI_KIND_CLEAR,  /* no value: a bool becomes false */
	CLI_KIND_TEXT,   /* a const char *: any text, or one of the words */
	CLI_KIND_U16,    /* a number from min to max */
	CLI_KIND_U32,
	CLI_KIND_U64,
	CLI_KIND_SIZE,     /* a uint64_t: bytes such as 4k or 256M, up to max */
	CLI_KIND_DURATION, /* a uint64_t: milliseconds, of 10s or 500ms; min or more */
	CLI_KIND_FORMAT,   /* a bool: whether "json" was asked for and not "normal" */
};

struct cli_option {
	const char *name;     /* --name; NULL: the end of the table */
	char letter;          /* -l; 0: none */
	const char *argument; /* what help calls the value; "{words}": the words with | between
			       * them; NULL: the option takes none */
	const char *help;     /* "{words}" stands for the words. NULL: accepted and not shown */
	const char *words;    /* the values that it has, separated by blanks; NULL: any */
	bool is_path;         /* shells complete names of files */
	bool is_value_optional;
	enum cli_kind kind;
	size_t offset; /* of the field */
	uint64_t min, max;
	/* 0, or -1 after a message. `to` is what the group's rows fill in. */
	int (*take)(void *to, const struct cli_given *given);
	const void *detail; /* for take */
};

/* For rows: where the value goes. A field of the wrong type does not compile. */
#define CLI_FIELD(type, field, wanted)                                                             \
	.offset = offsetof(type, field) +                                                          \
		  0 * sizeof(char[_Generic(&((type *)0)->field, wanted * : 1)])
#define CLI_SWITCH(type, field) .kind = CLI_KIND_SWITCH, CLI_FIELD(type, field, bool)
#define CLI_CLEAR(type, field)  .kind = CLI_KIND_CLEAR, CLI_FIELD(type, field, bool)
#define CLI_TEXT(type, field)   .kind = CLI_KIND_TEXT, CLI_FIELD(type, field, const char *)
#define CLI_U16(type, field, min_, max_)                                                           \
	.kind = CLI_KIND_U16, .min = (min_), .max = (max_), CLI_FIELD(type, field, uint16_t)
#define CLI_U32(type, field, min_, max_)                                                           \
	.kind = CLI_KIND_U32, .min = (min_), .max = (max_), CLI_FIELD(type, field, uint32_t)
#define CLI_U64(type, field, min_, max_)                                                           \
	.kind = CLI_KIND_U64, .min = (min_), .max = (max_), CLI_FIELD(type, field, uint64_t)
#define CLI_SIZE(type, field)                                                                      \
	.kind = CLI_KIND_SIZE, .max = UINT64_MAX, CLI_FIELD(type, field, uint64_t)
#define CLI_DURATION(type, field, min_)                                                            \
	.kind = CLI_KIND_DURATION, .min = (min_), CLI_FIELD(type, field, uint64_t)
/* The row of -o, the same wherever there is one. */
#define CLI_OUTPUT_FORMAT(type, field)                                                             \
	{                                                                                          \
		"output-format", 'o', "FMT", "{words} (normal)", "normal json",                    \
			.kind = CLI_KIND_FORMAT, CLI_FIELD(type, field, bool)                      \
	}
/* "4420", of a macro that is a number: for help. */
#define CLI_DIGITS(number)  CLI_DIGITS_(number)
#define CLI_DIGITS_(number) #number
/* Words of options that several sub-commands have. */
#define CLI_POLICIES "numa round-robin queue-depth latency"
#define CLI_PROFILES "default training database"

/* Rows that belong together. */
struct cli_group {
	const char *heading;              /* in --help; NULL: none */
	const struct cli_option *options; /* ends with a name of NULL */
	size_t offset;  /* of what the rows fill in, in what the sub-command is told to do */
	bool is_hidden; /* accepted, and not shown by --help */
	const struct cli_option *(*make)(void); /* instead of options: makes the rows once */
};

/*
 * Reads the options into `to`, as the rows of the sub-command say, and prints help when it is asked
 * for. True to go on, with optind at the first word; else the exit status is in *ret_exit. Words
 * are refused where the sub-command takes none.
 */
bool cli_parse(const struct cli_command *command, int argc, char **argv, void *to, int *ret_exit);

/* The rows of a group. */
const struct cli_option *cli_group_options(const struct cli_group *group);
/* The rows of a sub-command one after the other, --help last; NULL behind the end. */
const struct cli_option *cli_option_at(const struct cli_command *command, unsigned index,
				       const struct cli_group **ret_group);

/* ---- for take() ------------------------------------------------------------------------------ */

/* Puts the value where the row's kind says. 0, or -1 after a message. */
int cli_option_take(void *to, const struct cli_given *given);
/* "--name TEXT" and where help is to be had. Returns -1. */
int cli_given_error(const struct cli_given *given, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* "--rw: "randred" is not one of read, write, ...; did you mean randread?" Returns -1. */
int cli_words_error(const struct cli_given *given);
/* The same for a word that is no option's value. Returns CLI_USAGE. */
int cli_word_error(const char *command, const char *what, const char *words, const char *given);
/* A number from `min` to `max`. 0, or -1 after a message. */
int cli_given_number(const struct cli_given *given, uint64_t min, uint64_t max,
		     uint64_t *ret_number);

/* ---- help (options_help.c) ------------------------------------------------------------------- */

void cli_help_print(const struct cli_command *command);
void cli_help_usage_print(const struct cli_command *command);
/* One row. */
void cli_help_option_print(const struct cli_option *option);
/* The help of a row in one line, with its words. */
void cli_help_text(const struct cli_option *option, char *text, size_t text_bytes);

#endif
