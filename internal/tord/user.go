package tord

import (
	"os"
	"os/user"
	"strconv"

	"github.com/chivenet/chive/internal/fault"
)

// checkUser refuses a user that the program is not and cannot become.
func checkUser(name string) error {
	if name == "" || isUser(name) {
		return nil
	}
	if os.Geteuid() != 0 || !canChangeUser {
		return fault.New(fault.Config, "User %s: start the program as root or as that user: others cannot become it", name)
	}
	if _, _, _, err := idsOf(name); err != nil {
		return fault.New(fault.Config, "User %s: %w", name, err)
	}
	return nil
}

// currentUser returns the user of this process. user.Current remembers who it was at the start.
func currentUser() (*user.User, error) {
	if !canChangeUser {
		return user.Current()
	}
	return user.LookupId(strconv.Itoa(os.Geteuid()))
}

// isUser reports whether the process is a user's.
func isUser(name string) bool {
	now, err := currentUser()
	return err == nil && now.Username == name
}

// idsOf returns the numbers of a user and of its groups, the main one first.
func idsOf(name string) (u *user.User, uid int, groups []int, err error) {
	if u, err = user.Lookup(name); err != nil {
		return nil, 0, nil, err
	}
	if uid, err = strconv.Atoi(u.Uid); err != nil {
		return nil, 0, nil, err
	}
	all, err := u.GroupIds()
	if err != nil {
		return nil, 0, nil, err
	}
	for _, text := range append([]string{u.Gid}, all...) {
		id, err := strconv.Atoi(text)
		if err != nil {
			return nil, 0, nil, err
		}
		groups = append(groups, id)
	}
	return u, uid, groups, nil
}

// becomeUser makes the process the user's, for good. Nothing is open before that. low says that it may open ports below 1024 then.
func becomeUser(name string, low bool) error {
	if name == "" || isUser(name) {
		return nil
	}
	u, uid, groups, err := idsOf(name)
	if err == nil {
		err = changeUser(uid, groups, low)
	}
	if err == nil {
		err = os.Setenv("HOME", u.HomeDir)
	}
	if err != nil {
		return fault.New(fault.Config, "User %s: the program could not become it: %w", name, err)
	}
	return nil
}
