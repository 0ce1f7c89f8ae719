package cli

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/chivenet/chive/authority"
	"github.com/chivenet/chive/internal/atomicfile"
	"github.com/chivenet/chive/internal/fault"
	"github.com/chivenet/chive/relay"
)

// maxPassphrase bounds a file with a passphrase.
const maxPassphrase = 4096

// keysCommand makes keys that a relay does not make by itself.
func keysCommand() *cobra.Command {
	c := &cobra.Command{Use: "keys", Short: "Make keys: a directory authority's, a relay's that are kept offline, a family's", Args: cobra.NoArgs}
	var address, passFile string
	var months int
	certify := &cobra.Command{
		Use:   "certify DIR",
		Short: "Make a signing key and a certificate, and an identity key when there is none",
		Long: "Make what tor-gencert makes, in C tor's formats: a signing key and a certificate for it, signed by the v3\n" +
			"identity key, which is made when DIR has none. Do it again before the certificate expires. The identity key\n" +
			"(authority_identity_key) is needed for nothing else: encrypt it with a passphrase, or keep it elsewhere.",
		Example: "  chive keys certify --address 192.0.2.1:9030 --passphrase-file pass /var/lib/chive/authority/keys",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if months < 1 || months > 24 {
				return fault.New(fault.Config, "--months: %d is not from 1 to 24", months)
			}
			var pass []byte
			if passFile != "" {
				b, err := atomicfile.Read(passFile, maxPassphrase)
				if err != nil {
					return fault.New(fault.Config, "--passphrase-file: %w", err)
				}
				if pass = bytes.TrimRight(b, "\r\n"); len(pass) == 0 {
					return fault.New(fault.Config, "--passphrase-file: %s is empty", passFile)
				}
			}
			k, err := authority.MakeKeys(args[0], address, months, pass)
			if err != nil {
				return err
			}
			return printKeys(c, k)
		},
	}
	certify.Flags().StringVar(&address, "address", "", "`IP:PORT` of the DirPort, told in the certificate")
	certify.Flags().StringVar(&passFile, "passphrase-file", "", "`FILE` with the passphrase of the identity key; none: not encrypted")
	certify.Flags().IntVar(&months, "months", 12, "`MONTHS` of the certificate's life")
	show := &cobra.Command{
		Use: "show DIR", Short: "Print the fingerprints, as a network file needs them", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			k, err := authority.LoadKeys(args[0])
			if err != nil {
				return err
			}
			return printKeys(c, k)
		},
	}
	c.AddCommand(certify, show, relayKeysCommand(), familyKeyCommand())
	return c
}

// relayKeysCommand makes the keys of a relay whose master key is kept elsewhere.
func relayKeysCommand() *cobra.Command {
	days := 30
	c := &cobra.Command{
		Use:   "relay DIR",
		Short: "Make a relay's signing key and its certificate, where the master key is kept",
		Long: "Make a new signing key for a relay, and a certificate for it by the relay's Ed25519 master key, in a directory\n" +
			"that is kept away from the relay. Identities that are not there are made; C tor's files are understood. Copy the\n" +
			"files that are named into \"keys\" in the relay's data directory, run it with --offline-master-key, and do it again\n" +
			"before the certificate expires: the relay takes the new files when it gets SIGHUP.",
		Example: "  chive keys relay --days 90 /media/stick/mine",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if days < 1 || days > 3650 {
				return fault.New(fault.Config, "--days: %d is not from 1 to 3650", days)
			}
			k, err := relay.MakeKeys(args[0], time.Duration(days)*24*time.Hour)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "rsa = %q\ned25519 = %q\n# the certificate expires at %s UTC\n# copy: %s\n", k.RSA, k.Ed25519,
				k.Expires.UTC().Format(time.DateTime), strings.Join(k.Files, " "))
			return err
		},
	}
	c.Flags().IntVar(&days, "days", days, "`DAYS` of the certificate's life")
	return c
}

// familyKeyCommand makes the key of a family of relays.
func familyKeyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "family NAME",
		Short: "Make the key of a family of relays",
		Long: "Make the key by which all relays of one operator say that they belong together, in the files\n" +
			"NAME.secret_family_key and NAME.public_family_id, which C tor reads and writes too. Copy the secret file into\n" +
			"the directory \"keys\" of every relay's data directory, and give each relay the identity that is printed.",
		Example: "  chive keys family myrelays\n  chive relay --family-id IDENTITY ...",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			id, err := relay.MakeFamilyKey(args[0])
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "family-id = %q\n", id)
			return err
		},
	}
}

func printKeys(c *cobra.Command, k *authority.Keys) error {
	_, err := fmt.Fprintf(c.OutOrStdout(), "v3ident = %q\nrsa = %q\ned25519 = %q\n# the certificate expires at %s UTC\n", k.V3Ident, k.RSA, k.Ed25519, k.Expires.UTC().Format(time.DateTime))
	return err
}
