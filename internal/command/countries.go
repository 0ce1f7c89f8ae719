package command

import "strings"

// iso3166 are the countries of ISO 3166-1, by their two letters.
const iso3166 = "adaeafagaialamaoaqarasatauawaxazbabbbdbebfbgbhbibjblbmbnbobqbrbsbtbvbwbybz" +
	"cacccdcfcgchcickclcmcncocrcucvcwcxcyczdedjdkdmdodzeceeegeheresetfifjfkfmfofr" +
	"gagbgdgegfggghgiglgmgngpgqgrgsgtgugwgyhkhmhnhrhthuidieiliminioiqirisitjejmjojp" +
	"kekgkhkikmknkpkrkwkykzlalblclilklrlsltlulvlymamcmdmemfmgmhmkmlmmmnmompmqmrmsmtmumvmwmxmymz" +
	"nancnenfngninlnonpnrnunzompapepfpgphpkplpmpnprpsptpwpyqarerorsrurw" +
	"sasbscsdsesgshsisjskslsmsnsosrssstsvsxsysztctdtftgthtjtktltmtntotrtttvtwtzuaugumusuyuz" +
	"vavcvevgvivnvuwfwsyeytzazmzw"

// countries returns how a list of relays names each country: {de}.
func countries() []string {
	var b strings.Builder
	for i := 0; i < len(iso3166); i += 2 {
		b.WriteString("{" + iso3166[i:i+2] + "} ")
	}
	return strings.Fields(b.String())
}
