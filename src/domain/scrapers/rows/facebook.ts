import { type ScraperRow, byCursor, choice, country, cursor, day, flag, language, link, position, query, scraper, text, trim } from '../scraper.ts'

const hosts = ['facebook.com', 'fb.watch', 'fb.com']
const adMedia = ['ALL', 'IMAGE', 'VIDEO', 'MEME', 'IMAGE_AND_MEME', 'NONE']
const adOrders = ['total_impressions', 'relevancy_monthly_grouped']

/** Scrapers of facebook. */
export const facebook: readonly ScraperRow[] = [
  scraper('facebook', 'profile', {
    price: '0.0030',
    summary: 'A public page and its contact details',
    note: 'A private page is target_not_found, an age-restricted one target_restricted',
    inputs: [
      link('page', hosts, 'https://www.facebook.com/NASA', { required: true }),
      flag('get_business_hours', 'Adds the opening hours'),
      flag(
        'include_gated_profile',
        'Gives the few public fields of a page that is gated or age-restricted, in place of a refusal',
      ),
    ],
    answer: 'Who the page is, how to reach it, followers, likes and whether it advertises',
    fields:
      'id name url category followerCount:number likeCount:number pageIntro website email phone address adLibrary:object isPrivate:boolean creationDate',
    path: '/v1/facebook/profile',
    isCacheable: true,
  }),
  scraper('facebook', 'profile-reels', {
    price: '0.0030',
    summary: 'Reels that a public page shows',
    inputs: [
      link('page', hosts, 'https://www.facebook.com/NASA', { required: true }),
      position(
        'next_page_id',
        'Only beside a `cursor` that was taken out of `data`; `nextCursor` holds both',
        'YXBwX2Nv...',
      ),
      cursor('AQHSFZtz...'),
    ],
    paging: byCursor(undefined, { second: 'next_page_id' }),
    answer: 'At most 10 reels a call',
    fields: 'reels:object[] cursor next_page_id',
    items: [
      'reels',
      'id post_id url description author:object view_count:number thumbnail creation_time video_url',
    ],
    path: '/v1/facebook/profile/reels',
  }),
  scraper('facebook', 'profile-photos', {
    price: '0.0030',
    summary: 'Photos that a public page shows',
    inputs: [
      link('page', hosts, 'https://www.facebook.com/NASA', { required: true }),
      position(
        'next_page_id',
        'Only beside a `cursor` that was taken out of `data`; `nextCursor` holds both',
        'YXBwX2Nv...',
      ),
      cursor('AQHSRM68...'),
    ],
    paging: byCursor(undefined, { second: 'next_page_id' }),
    answer: 'Photos with addresses of the images',
    fields: 'photos:object[] cursor next_page_id',
    items: ['photos', 'id photo_id url thumbnail'],
    path: '/v1/facebook/profile/photos',
  }),
  scraper('facebook', 'profile-posts', {
    price: '0.0030',
    summary: 'Posts of a public page',
    note: 'The platform shows 3 posts at a time',
    inputs: [
      link('page', hosts, 'https://www.facebook.com/NASA'),
      text('page_id', 'Number of the page, which is quicker than its link', '100063669491743', {
        sentAs: 'pageId',
      }),
      cursor('Cg8Ob3Jn...'),
    ],
    oneOf: [['url', 'page_id']],
    paging: byCursor(),
    answer: 'At most 3 posts a call',
    fields: 'posts:object[] cursor',
    items: ['posts', 'id url text author:object publishTime:number commentCount:number permalink'],
    path: '/v1/facebook/profile/posts',
  }),
  scraper('facebook', 'profile-events', {
    price: '0.0030',
    summary: 'Events that a public page hosts',
    inputs: [
      link('page', hosts, 'https://www.facebook.com/brickyardoldtown', { required: true }),
      cursor('eyJpZCI6...'),
    ],
    paging: byCursor('has_next_page'),
    answer: 'Events to come and events that are over',
    fields: 'events:object[] cursor has_next_page:boolean total_count:number',
    items: [
      'events',
      'id url name is_canceled:boolean event_creator:object event_place:object day_time_sentence __isEntity event_kind',
    ],
    path: '/v1/facebook/profile/events',
  }),
  scraper('facebook', 'post', {
    price: '0.0030',
    summary: 'A single public post or reel',
    inputs: [
      link('post or reel', hosts, 'https://www.facebook.com/reel/1535656380759655', { required: true }),
    ],
    answer: 'Text, author, media, and how often it was liked, shared and seen',
    fields:
      'post_id url description creation_time like_count:number comment_count:number share_count:number view_count:number author:object video:object image_url:any music:object feedback_id',
    path: '/v1/facebook/post',
    isCacheable: true,
  }),
  scraper('facebook', 'post-comments', {
    price: '0.0030',
    summary: 'What people commented on a post or reel',
    inputs: [
      link('post or reel', hosts, 'https://www.facebook.com/reel/753347914167361'),
      position(
        'feedback_id',
        '`feedback_id` that post gave, which is far quicker than a link',
        'ZmVlZGJhY2s6...',
      ),
      cursor('MToxNzU3...'),
    ],
    oneOf: [['url', 'feedback_id']],
    paging: byCursor('has_next_page'),
    answer: 'Comments, each with its author and with what comment-replies asks for',
    fields: 'comments:object[] cursor has_next_page:boolean',
    items: ['comments', 'id text author:object created_at reaction_count:number reply_count:number'],
    path: '/v1/facebook/post/comments',
  }),
  scraper('facebook', 'comment-replies', {
    price: '0.0030',
    summary: 'Answers to a single comment',
    inputs: [
      position(
        'feedback_id',
        '`feedback_id` of the comment that post-comments gave; it is not the comment’s own id',
        'ZmVlZGJhY2s6...',
        { required: true },
      ),
      position('expansion_token', '`expansion_token` of the comment that post-comments gave', 'MjoxNzc4...', {
        required: true,
      }),
      cursor('MToxNzc4...'),
    ],
    paging: byCursor('has_next_page'),
    answer: 'Answers with their authors and counts',
    fields: 'replies:object[] cursor has_next_page:boolean',
    items: ['replies', 'id text author:object created_at reaction_count:number reply_count:number'],
    path: '/v1/facebook/post/comment/replies',
  }),
  scraper('facebook', 'group-posts', {
    price: '0.0030',
    summary: 'Posts of a group that anybody can read',
    note: 'The platform shows 3 posts at a time',
    inputs: [
      link('group', hosts, 'https://www.facebook.com/groups/1270525996445602/'),
      text('group_id', 'Number of the group', '742354120555345'),
      choice(
        'sort_by',
        'Which posts come first',
        ['TOP_POSTS', 'RECENT_ACTIVITY', 'CHRONOLOGICAL', 'CHRONOLOGICAL_LISTINGS'],
        'CHRONOLOGICAL',
        { default: 'CHRONOLOGICAL' },
      ),
      cursor('AQHRBjJC...'),
    ],
    oneOf: [['url', 'group_id']],
    paging: byCursor(),
    answer: 'At most 3 posts a call',
    fields: 'posts:object[] cursor',
    items: ['posts', 'id url author:object publishTime:number commentCount:number permalink'],
    path: '/v1/facebook/group/posts',
  }),
  scraper('facebook', 'events-search', {
    price: '0.0030',
    summary: 'Events that match some words',
    inputs: [query('Words to look for', 'jazz festival'), cursor('Abr1gHMU...')],
    paging: byCursor(),
    answer: 'Events with their kind and place',
    fields: 'events:object[] cursor',
    items: ['events', 'id url name is_online:boolean type'],
    path: '/v1/facebook/events/search',
  }),
  scraper('facebook', 'event', {
    price: '0.0030',
    summary: 'A single event',
    inputs: [
      text('id', 'Number of the event', '2255360061870188'),
      link('event', hosts, 'https://www.facebook.com/events/2255360061870188/'),
    ],
    oneOf: [['id', 'url']],
    answer: 'When, where, who hosts it, tickets, and how many come',
    fields:
      'id url name description start_time:any end_time:any is_online:boolean is_past:boolean location_name address latitude:number longitude:number ticket_url:any attendance_count:number',
    path: '/v1/facebook/event/details',
  }),
  scraper('facebook', 'events', {
    price: '0.0030',
    summary: 'What goes on in a city',
    inputs: [
      link(
        'city in the events explorer',
        hosts,
        'https://www.facebook.com/events/explore/saint-petersburg-florida/111326725552547',
        { required: true },
      ),
      choice('time', 'When; left out, at any time', ['today', 'this_week', 'next_week'], 'this_week'),
      cursor('eyJzdGFy...'),
    ],
    paging: byCursor(),
    answer: 'Events that the platform lists for the city',
    fields: 'events:object[] cursor',
    items: [
      'events',
      'id name is_online:boolean cover_photo:object is_happening_now:boolean day_time_sentence ticketing_context_row:object event_place:object eventUrl',
    ],
    path: '/v1/facebook/events',
  }),
  scraper('facebook', 'ad-companies-search', {
    price: '0.0030',
    summary: 'Companies that advertise',
    inputs: [query('Name of the company', 'nike')],
    answer: 'Pages of companies; `page_id` is what ad-company takes',
    fields: 'searchResults:object[]',
    items: [
      'searchResults',
      'page_id name category likes:number ig_username ig_followers:number verification',
    ],
    path: '/v1/facebook/adLibrary/search/companies',
  }),
  scraper('facebook', 'ad', {
    price: '0.0050',
    summary: 'A single advertisement of the public library',
    inputs: [
      text('id', 'Number of the advertisement in the library', '702369045530963'),
      link('advertisement in the library', hosts, 'https://www.facebook.com/ads/library?id=702369045530963'),
      trim,
    ],
    oneOf: [['id', 'url']],
    answer: 'When it ran, for whom, what it shows, and what the law makes public',
    fields:
      'adArchiveID:number pageID:number pageName isActive:boolean startDate:number endDate:number snapshot:object publisherPlatform:string[] currency spend:any impressionsWithIndex:object categories:number[]',
    path: '/v1/facebook/adLibrary/ad',
    isCacheable: true,
  }),
  scraper('facebook', 'ad-search', {
    price: '0.0050',
    summary: 'Advertisements that match some words',
    inputs: [
      query('Words to look for', 'running'),
      choice(
        'search_type',
        'Any of the words, or the phrase as it stands',
        ['keyword_unordered', 'keyword_exact_phrase'],
        'keyword_unordered',
        { default: 'keyword_unordered' },
      ),
      choice(
        'ad_type',
        'Every advertisement, or only those about politics and public issues',
        ['all', 'political_and_issue_ads'],
        'all',
        { default: 'all' },
      ),
      country('country', 'Country, two letters, or ALL', 'ALL', { also: ['ALL'], default: 'ALL' }),
      language('Language, two letters', 'EN'),
      choice('status', 'Whether it still runs', ['ALL', 'ACTIVE', 'INACTIVE'], 'ACTIVE', {
        default: 'ACTIVE',
      }),
      choice('media_type', 'What it shows', adMedia, 'ALL', { default: 'ALL' }),
      choice('sort_by', 'Which advertisements come first', adOrders, 'total_impressions', {
        default: 'total_impressions',
      }),
      day('start_date', 'The day from which it was seen'),
      day('end_date', 'The day up to which it was seen'),
      cursor('AQHRYLVD...'),
      trim,
    ],
    paging: byCursor(),
    answer: 'Advertisements with a snapshot of what they show',
    fields: 'searchResults:object[] searchResultsCount:number cursor',
    items: [
      'searchResults',
      'page_id snapshot:object ad_archive_id page_name is_active:boolean publisher_platform:string[] start_date:number end_date:number',
    ],
    path: '/v1/facebook/adLibrary/search/ads',
    takesPost: true,
  }),
  scraper('facebook', 'ad-company', {
    price: '0.0050',
    summary: 'What one company advertises',
    inputs: [
      text('page_id', '`page_id` that ad-companies-search gave', '367152833370567', { sentAs: 'pageId' }),
      text('company_name', 'Name of the company, where its page is not known', 'Lululemon', {
        sentAs: 'companyName',
      }),
      country('country', 'Country, two letters, or ALL', 'ALL', { also: ['ALL'], default: 'ALL' }),
      language('Language, two letters', 'EN'),
      choice('status', 'Whether it still runs', ['ALL', 'ACTIVE', 'INACTIVE'], 'ACTIVE', {
        default: 'ACTIVE',
      }),
      choice('media_type', 'What it shows', adMedia, 'ALL', { default: 'ALL' }),
      choice('sort_by', 'Which advertisements come first', adOrders, 'total_impressions', {
        default: 'total_impressions',
      }),
      day('start_date', 'The day from which it was seen'),
      day('end_date', 'The day up to which it was seen'),
      cursor('AQHRYLVD...'),
      trim,
    ],
    oneOf: [['page_id', 'company_name']],
    paging: byCursor(),
    answer: 'Advertisements of the company with a snapshot of what they show',
    fields: 'results:object[] cursor',
    items: [
      'results',
      'page_id snapshot:object ad_archive_id page_name is_active:boolean publisher_platform:string[] start_date:number end_date:number',
    ],
    path: '/v1/facebook/adLibrary/company/ads',
    takesPost: true,
  }),
  scraper('facebook', 'post-transcript', {
    price: '0.0300',
    summary: 'What is said in a video, as text',
    note: 'Videos of less than 2 minutes only',
    inputs: [
      link('post or reel', hosts, 'https://www.facebook.com/reel/1535656380759655', { required: true }),
    ],
    nothingWhenNull: 'transcript',
    answer: 'One text; null where nobody speaks',
    fields: 'transcript',
    path: '/v1/facebook/post/transcript',
    isCacheable: true,
    timeoutSeconds: 60,
  }),
]
