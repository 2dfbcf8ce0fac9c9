/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of a sub-command as rows of a table. The rows are the source for getopt_long, for
 * `--help`, for the completions of shells, and for what the manual page must have (tools/manual). A
 * row defines where its value is stored: in a field of the sub-command's struct, or by a function.
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
	const char *command; /* name of the sub-command, for messages */
	const struct cli_option *option;
	const char *value; /* NULL: none */
};

/* Where a value is stored, and which values are valid. */
enum cli_kind {
	CLI_KIND_TAKE,   /* passed to take() */
	CLI_KIND_SWITCH, /* no value: a bool becomes true */
	CLI_KIND_CLEAR,  /* no value: a bool becomes false */
	CLI_KIND_TEXT,   /* a const char *: any string, not checked */
	CLI_KIND_U16,    /* a number from min to max */
	CLI_KIND_U32,
	CLI_KIND_U64,
	CLI_KIND_SIZE,     /* a uint64_t: bytes such as 4k or 256M, up to max */
	CLI_KIND_DURATION, /* a uint64_t: milliseconds, of 10s or 500ms; min or more */
	CLI_KIND_FORMAT,   /* a bool: true for "json", false for "normal" */
};

struct cli_option {
	const char *name; /* --name; NULL: the end of the table */
	char letter;      /* -l; 0: none */
	/* Name of the value in help; "{words}": the words, separated by |. NULL: no value. */
	const char *argument;
	/* "{words}" is replaced by the words. NULL: accepted, but not shown. */
	const char *help;
	const char *words; /* the valid values, separated by blanks; NULL: any */
	bool is_path;      /* shells complete file names */
	bool is_value_optional;
	enum cli_kind kind;
	size_t offset; /* offset of the field */
	uint64_t min, max;
	/* Stores the value. `to` is the struct that the group's rows fill. 0, or -1 after a
	 * message. */
	int (*take)(void *to, const struct cli_given *given);
	const void *detail; /* for take */
};

/* For rows: where the value is stored. A field of the wrong type does not compile. */
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
/* The row of -o, the same for all sub-commands. */
#define CLI_OUTPUT_FORMAT(type, field)                                                             \
	{                                                                                          \
		"output-format", 'o', "FMT", "{words} (normal)", "normal json",                    \
			.kind = CLI_KIND_FORMAT, CLI_FIELD(type, field, bool)                      \
	}
/* The string "4420" of a macro that is the number 4420; for help. */
#define CLI_DIGITS(number)  CLI_DIGITS_(number)
#define CLI_DIGITS_(number) #number
/* Words of options that several sub-commands have. */
#define CLI_POLICIES "numa round-robin queue-depth latency"
#define CLI_PROFILES "default training database"

/* Rows that fill one struct. */
struct cli_group {
	const char *heading;              /* in --help; NULL: none */
	const struct cli_option *options; /* the last row's name is NULL */
	/* Offset of the struct that the rows fill, in the sub-command's struct. */
	size_t offset;
	bool is_hidden;                         /* accepted, but not shown by --help */
	const struct cli_option *(*make)(void); /* replaces `options`: makes the rows once */
};

/*
 * Parses the options into `to` by the rows of the sub-command, and prints help when requested. True
 * to continue, with optind at the first word; false: the exit status is in *ret_exit. Rejects words
 * when the sub-command takes none.
 */
bool cli_parse(const struct cli_command *command, int argc, char **argv, void *to, int *ret_exit);

/* The rows of a group. */
const struct cli_option *cli_group_options(const struct cli_group *group);
/* The rows of a sub-command by index, --help last; NULL after the last row. */
const struct cli_option *cli_option_at(const struct cli_command *command, unsigned index,
				       const struct cli_group **ret_group);

/* ---- for take() ------------------------------------------------------------------------------ */

/* Stores the value as the row's kind defines. 0, or -1 after a message. */
int cli_option_take(void *to, const struct cli_given *given);
/* Prints "--name TEXT" and how to get help. Returns -1. */
int cli_given_error(const struct cli_given *given, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* "--rw: "randred" is not one of read, write, ...; did you mean randread?" Returns -1. */
int cli_words_error(const struct cli_given *given);
/* As cli_words_error, for a word that is not the value of an option. `words` are those allowed,
 * separated by blanks. Returns CLI_USAGE. */
int cli_word_error(const char *command, const char *what, const char *words, const char *given);
/* Parses a number from `min` to `max`. 0, or -1 after a message. */
int cli_given_number(const struct cli_given *given, uint64_t min, uint64_t max,
		     uint64_t *ret_number);

/* ---- help (options_help.c) ------------------------------------------------------------------- */

void cli_help_print(const struct cli_command *command);
void cli_help_usage_print(const struct cli_command *command);
/* Prints the help of one row. */
void cli_help_option_print(const struct cli_option *option);
/* Copies the help of a row to `text`, with "{words}" replaced. */
void cli_help_text(const struct cli_option *option, char *text, size_t text_bytes);

#endif
