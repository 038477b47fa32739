import { type ScraperRow, byCursor, byPage, choice, country, cursor, day, handle, link, page, query, scraper, text, trim } from '../scraper.ts'

const googleHosts = ['adstransparency.google.com']
const amazonHosts = ['amazon.com']
const pinterestHosts = ['pinterest.com', 'pin.it']

/** Scrapers of google, amazon, pinterest. */
export const web: readonly ScraperRow[] = [
  scraper('google', 'search', {
    price: '0.0030',
    summary: 'Results of a web search',
    note: 'Pages 1 to 11',
    inputs: [
      query('Words to look for', 'proxy server'),
      country('region', 'Country, two letters, whose results are shown', 'US'),
      choice(
        'date_posted',
        'How old at most',
        ['last-hour', 'last-day', 'last-week', 'last-month', 'last-year'],
        'last-week',
      ),
      page(11),
    ],
    isSearch: true,
    paging: byPage(),
    answer: 'Results with link, title and text',
    fields: 'results:object[]',
    items: ['results', 'url title description'],
    path: '/v1/google/search',
  }),
  scraper('google', 'ad', {
    price: '0.0050',
    summary: 'A single advertisement of the transparency centre',
    note: 'Text in images is read by a machine',
    inputs: [
      link(
        'advertisement in the transparency centre',
        googleHosts,
        'https://adstransparency.google.com/advertiser/AR01614014350098432001/creative/CR10449491775734153217',
        { required: true },
      ),
    ],
    answer: 'Its variants, when it ran, and views by region',
    fields:
      'advertiserId creativeId format firstShown:any lastShown overallImpressions:object creativeRegions:object[] regionStats:object[] variations:object[]',
    items: ['creativeRegions', 'regionCode regionName'],
    path: '/v1/google/ad',
    isCacheable: true,
  }),
  scraper('google', 'ad-company', {
    price: '0.0050',
    summary: 'What one company advertises',
    inputs: [
      text('domain', 'Domain of the company', 'lululemon.com'),
      text('advertiser_id', '`advertiser_id` that ad-advertisers-search gave', 'AR01614014350098432001'),
      choice(
        'topic',
        'Every advertisement, or political ones, for which region is needed',
        ['all', 'political'],
        'all',
        { default: 'all' },
      ),
      country('region', 'Country, two letters, where the advertisement is shown; others are left out', 'US'),
      day('start_date', 'The first day'),
      day('end_date', 'The last day'),
      choice(
        'platform',
        'Where it ran',
        ['google_maps', 'google_play', 'google_search', 'google_shopping', 'youtube'],
        'youtube',
      ),
      choice('format', 'What it is made of', ['text', 'image', 'video'], 'video'),
      cursor('CgoAP7zn...'),
    ],
    oneOf: [['domain', 'advertiser_id']],
    needs: [{ field: 'topic', value: 'political', needs: 'region' }],
    paging: byCursor(),
    answer: 'Ids and links of its advertisements',
    fields: 'ads:object[] cursor number_of_ads_estimate:number',
    items: ['ads', 'advertiserId creativeId adUrl advertiserName format firstShown lastShown'],
    path: '/v1/google/company/ads',
  }),
  scraper('google', 'ad-advertisers-search', {
    price: '0.0030',
    summary: 'Companies that advertise',
    inputs: [
      query('Name of the advertiser', 'lululemon'),
      country('region', 'Country, two letters, in which to look', 'US', { default: 'US' }),
    ],
    answer: 'Advertisers and websites',
    fields: 'advertisers:object[] websites:object[]',
    items: ['advertisers', 'advertiser_id name region number_of_ads_estimate:number'],
    path: '/v1/google/adLibrary/advertisers/search',
  }),
  scraper('pinterest', 'search', {
    price: '0.0030',
    summary: 'Pins that match some words',
    inputs: [query('Words to look for', 'italian pot roast'), cursor('Y2JVSG81...'), trim],
    isSearch: true,
    paging: byCursor(),
    answer: 'Pins with images, link, board and author',
    fields: 'pins:object[] cursor',
    items: ['pins', 'id url title description created_at images:object link board:object pinner:object'],
    path: '/v1/pinterest/search',
  }),
  scraper('pinterest', 'pin', {
    price: '0.0030',
    summary: 'A single pin',
    inputs: [
      link('pin', pinterestHosts, 'https://www.pinterest.com/pin/1124351863225567517/', { required: true }),
      trim,
    ],
    answer: 'Title, description, images, author and link',
    fields:
      'title description link dominantColor originPinner:object pinner:object pinJoin:object videos:any reactionCountsData:object[] visualObjects:object[] embed:any category',
    items: ['reactionCountsData', 'reactionCount:number reactionType:number'],
    path: '/v1/pinterest/pin',
    isCacheable: true,
  }),
  scraper('pinterest', 'user-boards', {
    price: '0.0030',
    summary: 'Boards of a profile',
    note: 'One page only',
    inputs: [handle('pinterest', { required: true }), trim],
    answer: 'Boards with the number of pins and followers',
    fields: 'boards:object[] cursor',
    items: [
      'boards',
      'id url name description created_at images:object follower_count:number type pin_count:number',
    ],
    path: '/v1/pinterest/user/boards',
  }),
  scraper('pinterest', 'board', {
    price: '0.0030',
    summary: 'Pins of one board',
    inputs: [
      link('board', pinterestHosts, 'https://www.pinterest.com/lizmrodgers/moms-night/', { required: true }),
      cursor('Y2JURlEw...'),
      trim,
    ],
    paging: byCursor(),
    answer: 'Pins with images and text',
    fields: 'pins:object[] cursor',
    items: ['pins', 'id title description images:object link board:object pinner:object category type'],
    path: '/v1/pinterest/board',
  }),
  scraper('amazon', 'shop', {
    price: '0.0030',
    summary: "A creator's storefront",
    note: 'One page only',
    inputs: [link('storefront', amazonHosts, 'https://www.amazon.com/shop/example', { required: true })],
    answer: 'Who keeps it, lists, and recommendations',
    fields:
      'name avatar description socials:string[] lists:object[] trendingPicks:object[] curations:object[] pageToken',
    items: ['lists', 'url title itemCount:number image'],
    path: '/v1/amazon/shop',
  }),
]
