/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands of hosts that change the configuration (target/manage.h), as changes of the document.
 * Control reactor only.
 *
 * A subsystem with a pool lets its hosts manage the namespaces in the pool: create, attach, detach
 * and delete. A host may manage a namespace that it sees, or one that no host sees. Everything else
 * is the administrator's: other namespaces, which hosts see those, and "hidden_from" everywhere.
 */
#ifndef WEFT_DAEMON_MANAGE_H
#define WEFT_DAEMON_MANAGE_H

#include "daemon/daemon.h"
#include "target/manage.h"

/* target_config.manage: ends with manage_done. `daemon` is a struct daemon. */
void manage_handle(void *daemon, struct manage_request *request);

/* ---- private to manage_*.c and their tests ----------------------------------------------------
 */

/* A file of a pool that is deleted after the change was kept. */
struct manage_file {
	char *folder;
	char *path;
	uint8_t nguid[16];
	struct uuid uuid; /* of the file's namespace */
};

/* Takes ownership of taken_path. 0 or -ENOMEM; even then the caller must release *ret_file. */
int manage_file_fill(json_t *subsystem, json_t *ns, char *taken_path, struct manage_file *ret_file);
void manage_file_release(struct manage_file *file);

/* One request while the document is edited. */
struct manage_edit {
	struct manage_request *request; /* result_nsid is filled in */
	nvme_status status;             /* why the request was refused */
	struct manage_file *files;      /* DELETE: files to remove after the change */
	unsigned file_count;
	struct uuid *uuids; /* FORMAT: the namespaces to format */
	unsigned uuid_count;
	/* Whether the namespace is being formatted; called for each namespace that is to change.
	 * May be NULL. */
	bool (*is_formatting)(void *arg, const struct uuid *uuid);
	void *arg;
};

/* is_formatting of struct manage_edit; the argument is a media registry. */
bool manage_is_formatting(void *arg_registry, const struct uuid *uuid);
/* Calls manage_judge (target/manage.h). 0, or -errno with an error and a status. */
int manage_check_begin(struct manage_edit *edit, struct config_errors *errors);
/* Checks that the host has the right for its request. 0, or -errno with an error and a status. */
int manage_check_right(json_t *document, struct manage_edit *edit, struct config_errors *errors);
/* Each edits the document of the change, a full one (config_to_edit_json). 0, or -errno with an
 * error and a status. */
int manage_edit_create(json_t *document, struct manage_edit *edit, struct config_errors *errors);
int manage_edit_delete(json_t *document, struct manage_edit *edit, struct config_errors *errors);
int manage_edit_attach(json_t *document, struct manage_edit *edit, struct config_errors *errors);
int manage_edit_detach(json_t *document, struct manage_edit *edit, struct config_errors *errors);
int manage_edit_protect(json_t *document, struct manage_edit *edit, struct config_errors *errors);
int manage_edit_label(json_t *document, struct manage_edit *edit, struct config_errors *errors);
/* First step of a Format: collects the namespaces, and checks that each may be formatted. Leaves
 * the document as it is. */
int manage_edit_format_check(json_t *document, struct manage_edit *edit,
			     struct config_errors *errors);
/* Last step of a Format: sets the new block size. Namespaces removed meanwhile are left out. */
int manage_edit_format(json_t *document, struct manage_edit *edit, struct config_errors *errors);
void manage_edit_release(struct manage_edit *edit);

/* Helpers for the functions above: look up, and refuse. */
json_t *manage_find_subsystem(json_t *document, struct manage_edit *edit,
			      struct config_errors *errors);
json_t *manage_find_ns(json_t *subsystem, struct manage_edit *edit, struct config_errors *errors);
bool manage_ns_is_in_pool(json_t *subsystem, json_t *ns, char **ret_path);
bool manage_list_has(const json_t *list, const char *text);
bool manage_ns_is_visible(const json_t *ns, const char *host_nqn);
int manage_refuse(struct manage_edit *edit, nvme_status status, int res,
		  struct config_errors *errors, const char *text);

/* Starts a Format NVM (manage_format.c). */
void manage_format_start(struct daemon *daemon, struct manage_request *request);
/* Before a change is applied: notes what the configuration in force forbids already. The change
 * does not wait for Formats that it does not forbid itself. */
void manage_formats_note(struct target *target);
/* After a change is in force: ends the Formats under way that the change forbids, with Command
 * Interrupted. `done` gets 0 when they have ended, or -ETIMEDOUT (target/manage.h), possibly from
 * inside this call. `stop` and *change, a number that no other change has, must stay until then. */
void manage_formats_stop(struct manage_stop *stop, struct target *target, const uint64_t *change,
			 void (*done)(void *arg, int res), void *arg);
/* Maps the result of a change to a status. A status in `edit` comes first. */
nvme_status manage_status(const struct manage_edit *edit, int res);

#endif
