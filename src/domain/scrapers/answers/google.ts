import {
  type Answers,
  count,
  id,
  isoTime,
  link,
  list,
  mixed,
  number,
  object,
  picture,
  position,
  text,
  word,
} from './fields.ts'

const advertiserId = id('the advertiser', 'AR00000000000000000001')
const creativeId = id('the advertisement', 'CR00000000000000000001')
const format = word('What it is made of: text, image or video', 'image')
const lastShown = isoTime('When it was shown last')

const region = {
  regionCode: word('Country, two letters', 'US'),
  regionName: word('Name of the country', 'United States'),
}
const range = {
  min: number('At least', 1_000, 'views'),
  max: number('At most', 2_000, 'views'),
}

export const google: Answers = {
  ad: {
    advertiserId,
    creativeId,
    format,
    firstShown: mixed('When it was shown first, or null', '2026-01-01T12:00:00.000Z', 'ISO 8601'),
    lastShown,
    overallImpressions: object('How often it was seen', range),
    creativeRegions: list('Countries where it was shown', region),
    regionStats: list('Views by country', {
      ...region,
      firstShown: mixed('When it was shown first, or null', '2026-01-01T12:00:00.000Z', 'ISO 8601'),
      lastShown,
      impressions: object('How often it was seen in the country', range),
    }),
    variations: list('Variants', {
      destinationUrl: word('Where it leads', 'example.com/shoes'),
      headline: text('Headline', 'Running shoes'),
      description: text('Text', 'Light shoes for long runs'),
      allText: text('All text, also that of images', 'Sponsored Running shoes Light shoes for long runs'),
      imageUrl: picture('Picture'),
    }),
  },
  'ad-advertisers-search': {
    advertisers: list('Advertisers', {
      advertiser_id: advertiserId,
      name: text('Name of the advertiser', 'Example Shoes Ltd'),
      region: word('Country, two letters', 'US'),
      number_of_ads_estimate: count('advertisements, estimated', 5),
    }),
    websites: list('Websites of advertisers', { domain: word('Domain', 'example.com') }),
  },
  'ad-company': {
    ads: list('Advertisements', {
      advertiserId,
      creativeId,
      adUrl: link('Link to the advertisement', 'advertiser/1/creative/1'),
      advertiserName: text('Name of the advertiser', 'Example Shoes Ltd'),
      format,
      domain: word('Domain that it leads to', 'example.com'),
      imageUrl: picture('Picture'),
      firstShown: isoTime('When it was shown first'),
      lastShown,
    }),
    cursor: position('CgoAP7zmu0V4YW1wbGVQYWdlMg'),
    number_of_ads_estimate: count('advertisements, estimated', 20_000),
  },
  search: {
    results: list('Results, the best first', {
      url: link('Link to the page', 'proxies'),
      title: text('Title of the page', 'What a proxy server is'),
      description: text('Part of the text of the page', 'A proxy server forwards requests'),
    }),
  },
}
