/** A carrier of the demo catalogue's mobile lines, with the network that its phones are on: an ISP and its AS number. */
export type Carrier = {
  /** As the catalogue calls it. */
  readonly id: string
  readonly country: string
  readonly network: readonly [name: string, asn: number]
}

export const carriers: readonly Carrier[] = [
  { id: 'att-us', country: 'us', network: ['AT&T Mobility', 20_057] },
  { id: 'tmobile-us', country: 'us', network: ['T-Mobile', 21_928] },
  { id: 'verizon-us', country: 'us', network: ['Verizon Wireless', 6_167] },
  { id: 'rogers-ca', country: 'ca', network: ['Rogers', 812] },
  { id: 'ee-uk', country: 'gb', network: ['EE', 12_576] },
  { id: 'vodafone-uk', country: 'gb', network: ['Vodafone UK', 25_135] },
  { id: 'telekom-de', country: 'de', network: ['Deutsche Telekom', 3_320] },
  { id: 'vodafone-de', country: 'de', network: ['Vodafone', 3_209] },
  { id: 'orange-fr', country: 'fr', network: ['Orange', 3_215] },
  { id: 'sfr-fr', country: 'fr', network: ['SFR', 15_557] },
  { id: 'kpn-nl', country: 'nl', network: ['KPN', 1_136] },
  { id: 'tim-it', country: 'it', network: ['TIM', 3_269] },
  { id: 'movistar-es', country: 'es', network: ['Telefónica', 3_352] },
  { id: 'plus-pl', country: 'pl', network: ['Plus', 8_374] },
  { id: 'telstra-au', country: 'au', network: ['Telstra', 1_221] },
  { id: 'claro-br', country: 'br', network: ['Claro', 28_573] },
]
